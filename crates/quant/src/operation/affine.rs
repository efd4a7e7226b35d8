//! Batch norms and clips, such as rectifiers, which are fused into neighboring operations.

use super::convolution::Convolution;
use super::definition::Work;
use super::error::OperationError;
use super::parameters::{Lens, Parameters, check_finite};
use super::window::Window;
use crate::clip::Clip;
use crate::network::{Graph, GraphError, Layer, Value};

impl Graph {
    /// A batch normalization as it runs after training, with its running statistics:
    /// `gamma·(x − mean)/√(variance + epsilon) + beta`.
    ///
    /// # Errors
    /// [`GraphError`] for another length, NaN and infinity, or a variance without a root.
    #[expect(clippy::too_many_arguments, reason = "each is one parameter of the layer")]
    pub fn batch_norm(
        &mut self,
        name: &str,
        x: Value,
        gamma: &[f32],
        beta: &[f32],
        mean: &[f32],
        variance: &[f32],
        epsilon: f64,
    ) -> Result<Value, GraphError> {
        let channels = self.shape(x)[0];
        let check = || -> Result<Parameters, OperationError> {
            for (what, values) in
                [("gammas", gamma), ("betas", beta), ("means", mean), ("variances", variance)]
            {
                let (expected, got) = (channels, values.len());
                if got != expected {
                    return Err(OperationError::Length { what, expected, got });
                }
                check_finite(what, values)?;
            }
            let mut folded = Parameters::default();
            for channel in 0..channels {
                let spread = f64::from(variance[channel]) + epsilon;
                let factor = f64::from(gamma[channel]) / spread.sqrt();
                if !(variance[channel] >= 0.0 && spread > 0.0 && (factor as f32).is_finite()) {
                    let variance = variance[channel];
                    return Err(OperationError::Variance { channel, variance });
                }
                let shift = f64::from(beta[channel]) - f64::from(mean[channel]) * factor;
                folded.weights.push(factor as f32);
                folded.bias.push(shift as f32);
            }
            Ok(folded)
        };
        let folded = check().map_err(|cause| GraphError::layer(name, cause))?;
        Ok(self.push(name, Layer::Affine(folded.into()), &[x], self.shape(x).to_vec()))
    }

    /// `x·scale + shift`, with one number for each channel.
    ///
    /// # Errors
    /// [`GraphError`] for another length, or NaN and infinity.
    pub fn affine(
        &mut self,
        name: &str,
        x: Value,
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Value, GraphError> {
        let (channels, parameters) = (self.shape(x)[0], Parameters::new(scale, shift));
        let checked = parameters.lens().check(channels, channels);
        checked
            .and_then(|()| parameters.check_finite())
            .map_err(|cause| GraphError::layer(name, cause))?;
        Ok(self.push(name, Layer::Affine(parameters.into()), &[x], self.shape(x).to_vec()))
    }

    /// `max(x, 0)`.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn rectifier(&mut self, name: &str, x: Value) -> Value {
        self.clip(name, x, Clip::RECTIFIER)
    }

    pub(crate) fn clip(&mut self, name: &str, x: Value, by: Clip) -> Value {
        self.push(name, Layer::Clip(by), &[x], self.shape(x).to_vec())
    }
}

/// A depthwise convolution of one pixel, for a batch norm that cannot be fused.
pub(crate) fn pointwise(parameters: Parameters) -> Work {
    let Lens { bias: groups, .. } = parameters.lens();
    Work::new(Convolution { window: Window::new([1, 1]), groups, addend: None }, parameters)
}

/// Records batch norms.
#[cfg(feature = "burn")]
pub(super) fn record(
    reader: &mut crate::module::Reader<'_>,
    operation: &burn::backend::ir::OperationIr,
    layer: Option<&str>,
) -> super::Recorded {
    use burn::backend::ir::{ModuleOperationIr, OperationIr};

    let OperationIr::Module(ModuleOperationIr::BatchNorm(norm)) = operation else {
        return Ok(None);
    };
    let x = reader.value_of_channels(&norm.x)?;
    let reason = "its parameters depend on the input";
    let mut constants = Vec::new();
    for tensor in [&norm.gamma, &norm.beta, &norm.mean, &norm.variance] {
        constants.push(reader.constant(tensor, reason)?.values);
    }
    let name = reader.name_of(layer, "norm");
    let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|index| constants[index].as_slice());
    let epsilon = norm.epsilon.elem::<f64>();
    let y = reader.graph.batch_norm(&name, x, gamma, beta, mean, variance, epsilon);
    reader.layer(y).map(Some)
}
