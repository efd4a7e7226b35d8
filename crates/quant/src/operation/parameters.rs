//! Weights and biases in f32, and batch norms folded into them.

use super::error::OperationError;

/// Weights `[outputs][…]` and one bias for each output; empty for operations without parameters.
///
/// For a scale and shift per channel, the weights are the factors.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) weights: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// The number of weights and biases, in any representation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lens {
    pub(crate) weights: usize,
    pub(crate) bias: usize,
}

impl Lens {
    /// Checks their number for an operation.
    pub(crate) fn check(self, weights: usize, bias: usize) -> Result<(), OperationError> {
        for (what, expected, got) in
            [("weights", weights, self.weights), ("biases", bias, self.bias)]
        {
            if got != expected {
                return Err(OperationError::Length { what, expected, got });
            }
        }
        Ok(())
    }
}

impl Parameters {
    pub(crate) fn new(weights: &[f32], bias: &[f32]) -> Self {
        Self { weights: weights.to_vec(), bias: bias.to_vec() }
    }

    pub(crate) const fn lens(&self) -> Lens {
        Lens { weights: self.weights.len(), bias: self.bias.len() }
    }

    pub(crate) fn check_finite(&self) -> Result<(), OperationError> {
        check_finite("weights", &self.weights)?;
        check_finite("biases", &self.bias)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.weights[..]) + size_of_val(&self.bias[..])
    }

    /// The factor, if it is the only change and a single positive number.
    pub(crate) fn factor(&self) -> Option<f32> {
        let first = self.weights[0];
        let is_factor = first.is_normal()
            && first > 0.0
            && self.weights.iter().all(|&scale| scale == first)
            && self.bias.iter().all(|&shift| shift == 0.0);
        is_factor.then_some(first)
    }

    /// The same with scaled and shifted outputs.
    pub(crate) fn scaled(&self, by: &Self) -> Self {
        let mut scaled = self.clone();
        let each = self.weights.len() / self.bias.len();
        let channels = scaled.weights.chunks_exact_mut(each).zip(&mut scaled.bias);
        for ((weights, bias), (scale, shift)) in channels.zip(by.weights.iter().zip(&by.bias)) {
            weights.iter_mut().for_each(|weight| *weight *= scale);
            *bias = *bias * scale + shift;
        }
        scaled
    }

    /// The same for inputs that are still to be scaled and shifted; weights
    /// `[outputs][inputs / groups][…]`.
    pub(crate) fn of_scaled(&self, by: &Self, groups: usize) -> Self {
        let Self { mut weights, mut bias } = self.clone();
        let outputs = bias.len();
        let inputs = by.weights.len() / groups;
        let each = weights.len() / outputs / inputs;
        for (output, weights) in weights.chunks_exact_mut(inputs * each).enumerate() {
            let group = output / (outputs / groups);
            let mut shifted = f64::from(bias[output]);
            for (input, weights) in weights.chunks_exact_mut(each).enumerate() {
                let channel = group * inputs + input;
                for weight in weights {
                    shifted += f64::from(*weight) * f64::from(by.bias[channel]);
                    *weight *= by.weights[channel];
                }
            }
            bias[output] = shifted as f32;
        }
        Self { weights, bias }
    }
}

pub(crate) fn check_finite(what: &'static str, values: &[f32]) -> Result<(), OperationError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(OperationError::NotFinite { what, index, value: values[index] }),
    }
}
