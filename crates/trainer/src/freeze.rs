//! Parameters that are trained for the first epochs only.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::paths::{PathVisitor, visit_paths};

/// Parameters that keep their values after some epochs.
///
/// Their gradients are computed and then dropped: they count neither for the norm of the gradients
/// nor for the optimizer, whose momentum and weight decay do not move them either. A
/// [`Lookahead`](crate::Lookahead) still averages them with its slow weights. Running statistics of
/// batch norms are not parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freeze {
    /// The path of a parameter, or of a module with all of its parameters, such as `stem.conv`.
    pub parameters: String,
    /// Epochs in which they are trained; 0 never trains them.
    pub after_epochs: u64,
}

impl Freeze {
    /// Whether a parameter is among them.
    fn contains(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.parameters.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Checks that a module, on an autodiff device, has such parameters that are trained.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for the first path without one.
    pub fn check<M: Module>(all: &[Self], module: &M) -> Result<(), TrainError> {
        if all.is_empty() {
            return Ok(());
        }
        let mut trained = Trained { found: Vec::new() };
        visit_paths(module, &mut trained);
        let is_found = |freeze: &Self| trained.found.iter().any(|path| freeze.contains(path));
        match all.iter().find(|freeze| !is_found(freeze)) {
            None => Ok(()),
            Some(freeze) => {
                let examples = trained.found.first().map_or("none", String::as_str);
                let expected = format!(
                    "the path of a trained parameter or of a module with one, such as `{examples}`"
                );
                let value = format!("\"{}\"", freeze.parameters);
                Err(TrainError::setting("step.freeze.parameters", value, expected))
            }
        }
    }

    /// Removes the gradients of the parameters that are frozen in an epoch.
    pub(crate) fn drop_gradients<M: Module>(
        all: &[Self],
        epoch: u64,
        module: &M,
        gradients: &mut GradientsParams,
    ) {
        let frozen: Vec<&Self> = all.iter().filter(|freeze| epoch >= freeze.after_epochs).collect();
        if !frozen.is_empty() {
            visit_paths(module, &mut WithoutGradients { frozen, gradients });
        }
    }
}

struct Trained {
    found: Vec<String>,
}

impl PathVisitor for Trained {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        if param.is_require_grad() {
            self.found.push(path.join("."));
        }
    }
}

struct WithoutGradients<'a> {
    frozen: Vec<&'a Freeze>,
    gradients: &'a mut GradientsParams,
}

impl PathVisitor for WithoutGradients<'_> {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        let path = path.join(".");
        if self.frozen.iter().any(|freeze| freeze.contains(&path)) {
            self.gradients.remove::<D>(param.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig};
    use burn::tensor::Device;
    use updraft_testing::autodiff_devices;

    use super::*;

    fn freeze(parameters: &str, after_epochs: u64) -> Freeze {
        Freeze { parameters: parameters.to_owned(), after_epochs }
    }

    #[test]
    fn a_path_contains_whole_names_only() {
        let stem = freeze("stem", 0);
        for (path, is_contained) in
            [("stem", true), ("stem.conv.weight", true), ("stems.conv", false), ("a.stem", false)]
        {
            assert_eq!(stem.contains(path), is_contained, "{path}");
        }
    }

    #[test]
    fn gradients_are_dropped_from_the_given_epoch_on() {
        for device in autodiff_devices() {
            let norm: BatchNorm = BatchNormConfig::new(2).init(&device);
            let all = [freeze("beta", 3)];
            for epoch in 0..5 {
                let mut gradients = GradientsParams::new();
                for id in [norm.gamma.id, norm.beta.id] {
                    gradients.register(id, Tensor::<1>::ones([2], &Device::flex()));
                }
                Freeze::drop_gradients(&all, epoch, &norm, &mut gradients);
                assert!(gradients.get::<1>(norm.gamma.id).is_some());
                assert_eq!(gradients.get::<1>(norm.beta.id).is_some(), epoch < 3, "{epoch}");
            }
        }
    }

    #[test]
    fn a_path_without_a_trained_parameter_is_refused_with_one_that_has_it() {
        for device in autodiff_devices() {
            let norm: BatchNorm = BatchNormConfig::new(2).init(&device);
            assert!(Freeze::check(&[freeze("gamma", 0), freeze("beta", 1)], &norm).is_ok());
            for wrong in ["bet", "running_mean", ""] {
                let error = Freeze::check(&[freeze(wrong, 0)], &norm).expect_err("refused");
                let message = error.to_string();
                let start = format!("`step.freeze.parameters` is \"{wrong}\"");
                assert!(message.starts_with(&start), "{message}");
                assert!(message.ends_with("such as `gamma`"), "{message}");
            }
        }
    }
}
