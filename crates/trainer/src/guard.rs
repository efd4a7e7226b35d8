//! The guard against numbers that are not finite: what it does, and what it blames.

use std::fmt;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::target::Target;

/// What happens when a loss or a gradient is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum NonFinite {
    /// The run ends with an error that names the first bad tensor.
    #[default]
    Stop,
    /// The update is left out, running statistics are put back, and the run goes on.
    Skip {
        /// Updates that may be left out in a row; one more ends the run with an error.
        #[serde(default = "default_at_most")]
        at_most: u64,
    },
    /// Nobody looks, and no norm is taken unless gradients are clipped or the loss is scaled; what
    /// cannot be clipped or unscaled is refused in any case.
    Ignore,
}

impl NonFinite {
    /// Whether an update may be left out.
    pub(crate) fn skips(self) -> bool {
        matches!(self, Self::Skip { .. })
    }
}

/// Why an update was left out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Skipped {
    /// Something was not finite, and [`NonFinite::Skip`] bears it.
    NotFinite {
        /// The first tensor that is not.
        tensor: String,
    },
    /// The gradients overflowed under a dynamic loss scale, which is lower from here on.
    Overflow {
        /// The scale that was too large.
        scale: f64,
    },
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFinite { tensor } => f.write_str(tensor),
            Self::Overflow { scale } => write!(f, "the gradients, at a loss scale of {scale}"),
        }
    }
}

/// Few enough to end a lost run within seconds, more than a single bad batch needs.
fn default_at_most() -> u64 {
    10
}

/// The first tensor that is not finite, in the order in which a step meets them: the input, the
/// targets, the module's stored tensors in module order, the outputs, and else the loss.
///
/// Reads the device once a tensor: for naming a fault already seen.
pub(crate) fn first_bad_tensor<M: Module, const D: usize>(
    input: &Tensor<D>,
    target: &Target,
    module: &M,
    outputs: &Tensor<2>,
) -> String {
    if !is_finite(input) {
        return "the input".to_owned();
    }
    let is_target_finite = match target {
        Target::Classes(_) => true,
        Target::Mixed(mixed) => is_finite(&mixed.share),
        Target::Values(values) => is_finite(values),
    };
    if !is_target_finite {
        return "the targets".to_owned();
    }
    let mut search = Search { path: Vec::new(), found: None };
    module.visit(&mut search);
    match search.found {
        Some(path) => format!("the model's `{path}`"),
        None if !is_finite(outputs) => "the outputs".to_owned(),
        None => "the loss".to_owned(),
    }
}

fn is_finite<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.to_data().iter::<f32>().all(f32::is_finite)
}

struct Search {
    path: Vec<String>,
    found: Option<String>,
}

impl ModuleVisitor for Search {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.found.is_none() && !is_finite(&param.base()) {
            self.found = Some(self.path.join("."));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    use updraft_testing::alone;

    use super::*;

    #[test]
    fn the_first_bad_tensor_is_named_in_the_order_a_step_meets_them() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let good: Linear = LinearConfig::new(2, 2).init(&device);
        let mut bad = good.clone();
        bad.bias = bad.bias.map(|bias| bias.map(|value| value.mul_scalar(f32::NAN)));
        let (fine, nan) = (Tensor::ones([1, 1, 1, 1], &device), f32::NAN);
        let logits = Tensor::<2>::ones([1, 2], &device);
        let target = Target::Values(logits.clone());
        let name = |images: &Tensor<4>, module: &Linear, logits: &Tensor<2>| {
            first_bad_tensor(images, &target, module, logits)
        };
        let spoiled = Target::Values(logits.clone().mul_scalar(nan));
        assert_eq!(first_bad_tensor(&fine, &spoiled, &bad, &logits), "the targets");
        assert_eq!(name(&fine.clone().mul_scalar(nan), &bad, &logits), "the input");
        assert_eq!(name(&fine, &bad, &logits), "the model's `bias`");
        assert_eq!(name(&fine, &good, &logits.clone().mul_scalar(nan)), "the outputs");
        assert_eq!(name(&fine, &good, &logits), "the loss");
    }
}
