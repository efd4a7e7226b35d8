//! The policy for non-finite values, and finding the tensor that an error names.

use std::fmt;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::paths::{PathVisitor, visit_paths};
use crate::tensors::Tensors;

/// The policy for a non-finite loss or gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum NonFinite {
    /// The run ends with an error that names the first bad tensor. If several updates are read
    /// together, it names the update and is returned after the read; the parameters since the read
    /// before are dropped, and the newest checkpoint is what to resume from.
    #[default]
    Stop,
    /// The update is skipped, running statistics are restored, and the run continues.
    Skip {
        /// The largest number of consecutive skipped updates; one more ends the run with an error.
        #[serde(default = "default_at_most")]
        at_most: u64,
    },
    /// Nothing is checked, and no norm is computed unless gradients are clipped or the loss is
    /// scaled. Gradients that cannot be clipped or unscaled are an error in any case.
    Ignore,
}

impl NonFinite {
    /// Whether an update may be skipped.
    pub(crate) fn skips(self) -> bool {
        matches!(self, Self::Skip { .. })
    }
}

/// Why an update was skipped.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Skipped {
    /// A value was not finite, and [`NonFinite::Skip`] allows it.
    NotFinite {
        /// The first tensor that is not finite.
        tensor: String,
    },
    /// The gradients overflowed with a dynamic loss scale, which is lowered.
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

/// Low enough to end a diverged run within seconds, and high enough for single bad batches.
fn default_at_most() -> u64 {
    10
}

/// The first tensor that is not finite, in the order in which a step uses them: the input, the
/// targets, the module's stored tensors in module order, the outputs, and else the loss.
///
/// Reads the device once per tensor, so it is called only after an error.
pub(crate) fn first_bad_tensor<M: Module>(
    input: &impl Tensors,
    target: &impl Tensors,
    module: &M,
    outputs: &impl Tensors,
) -> String {
    if !input.all_finite() {
        return "the input".to_owned();
    }
    if !target.all_finite() {
        return "the targets".to_owned();
    }
    match non_finite_parameter(module) {
        Some(path) => format!("the model's `{path}`"),
        None if !outputs.all_finite() => "the outputs".to_owned(),
        None => "the loss".to_owned(),
    }
}

/// The path of the first stored tensor of a module that is not finite, in module order.
///
/// Reads the device once per tensor.
pub fn non_finite_parameter<M: Module>(module: &M) -> Option<String> {
    let mut search = Search { found: None };
    visit_paths(module, &mut search);
    search.found
}

struct Search {
    found: Option<String>,
}

impl PathVisitor for Search {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        if self.found.is_none() && !param.base().all_finite() {
            self.found = Some(path.join("."));
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
    fn the_first_bad_tensor_is_named_in_the_order_of_a_step() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let good: Linear = LinearConfig::new(2, 2).init(&device);
        let mut bad = good.clone();
        bad.bias = bad.bias.map(|bias| bias.map(|value| value.mul_scalar(f32::NAN)));
        let (fine, nan) = (Tensor::ones([1, 1, 1, 1], &device), f32::NAN);
        let logits = Tensor::<2>::ones([1, 2], &device);
        let target = logits.clone();
        let name = |images: &Tensor<4>, module: &Linear, logits: &Tensor<2>| {
            first_bad_tensor(images, &target, module, logits)
        };
        let spoiled = logits.clone().mul_scalar(nan);
        assert_eq!(first_bad_tensor(&fine, &spoiled, &bad, &logits), "the targets");
        assert_eq!(name(&fine.clone().mul_scalar(nan), &bad, &logits), "the input");
        assert_eq!(name(&fine, &bad, &logits), "the model's `bias`");
        assert_eq!(name(&fine, &good, &logits.clone().mul_scalar(nan)), "the outputs");
        assert_eq!(name(&fine, &good, &logits), "the loss");
    }
}
