//! Layer normalization of each pixel over its channels.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Attribute, Exact, Graph, GraphError, Node, Value};
use crate::scheme::ActivationScheme;

/// The scale and shift of the layer are a scale and shift of channels after it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Normalize {
    epsilon: Exact<f32>,
}

impl Graph {
    /// `(x − mean)/√(variance + epsilon)` with the mean and the variance of each pixel's channels.
    ///
    /// In int8, both are computed from integer sums, exactly.
    ///
    /// # Errors
    /// [`GraphError`] if `epsilon` is not a positive normal number.
    pub fn normalize(&mut self, name: &str, x: Value, epsilon: f32) -> Result<Value, GraphError> {
        let operation = Normalize { epsilon: Exact(epsilon) };
        self.layer(name, Work::new(operation, Parameters::default()), &[x])
    }
}

impl Operation for Normalize {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        let Exact(epsilon) = self.epsilon;
        match epsilon.is_normal() && epsilon > 0.0 {
            true => Ok(x[0].clone()),
            false => Err(OperationError::Epsilon { epsilon }),
        }
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let (channels, x) = (shapes.y[0], x[0]);
        let pixels = x.len() / channels;
        let Exact(epsilon) = self.epsilon;
        for pixel in 0..pixels {
            let each = (pixel..x.len()).step_by(pixels);
            let sum: f64 = each.clone().map(|at| f64::from(x[at])).sum();
            let mean = sum / channels as f64;
            let squares: f64 = each.clone().map(|at| (f64::from(x[at]) - mean).powi(2)).sum();
            let factor = 1.0 / (squares / channels as f64 + f64::from(epsilon)).sqrt();
            for at in each {
                y[at] = ((f64::from(x[at]) - mean) * factor) as f32;
            }
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let channels = around.shapes.y[0];
        let Exact(epsilon) = self.epsilon;
        let scale = f64::from(around.x[0].scale());
        // In units of the input's codes.
        let epsilon = f64::from(epsilon) / (scale * scale);
        let output = around.y.scheme();
        Ok(Some(Arc::new(QuantizedNormalize { channels, epsilon, output })))
    }

    /// `LayerNormalization`, with the channels as the last axis.
    fn export(&self, node: &mut Node<'_>) -> String {
        let shape = node.shapes().y.clone();
        let (channels, axes) = (shape[0], shape.len() as i64);
        let mut x = node.read(0);
        let order = |first: i64| -> Vec<(&'static str, Attribute)> {
            // Of `[batch, channels, …]`; 1 turns the channels to the end, −1 back.
            let turned: Vec<i64> = if first == 1 {
                std::iter::once(0).chain(2..=axes).chain([1]).collect()
            } else {
                [0, axes].into_iter().chain(1..axes).collect()
            };
            vec![("perm", Attribute::Integers(turned))]
        };
        if axes > 1 {
            x = node.push("Transpose", &[&x], ".turned", order(1));
        }
        let scale = node.reals(".scale", &vec![1.0; channels]);
        let Exact(epsilon) = self.epsilon;
        let epsilon = vec![("epsilon", Attribute::Real(epsilon))];
        let end = if axes > 1 { ".normal" } else { "" };
        let y = node.push("LayerNormalization", &[&x, &scale], end, epsilon);
        if axes > 1 { node.push("Transpose", &[&y], "", order(-1)) } else { y }
    }
}

impl Registered for Normalize {
    const KIND: &'static str = "normalize";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        layer: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{ModuleOperationIr, OperationIr};

        let OperationIr::Module(ModuleOperationIr::LayerNorm(norm)) = operation else {
            return Ok(None);
        };
        let x = reader.tokens(&norm.input)?;
        let reason = "its parameters depend on the input";
        let gamma = reader.constant(&norm.gamma, reason)?.values;
        let beta = norm.beta.as_ref().map(|beta| reader.constant(beta, reason)).transpose()?;
        let beta = beta.map_or(vec![0.0; gamma.len()], |beta| beta.values);
        let name = reader.name_of(layer, "norm");
        let epsilon = norm.epsilon.elem::<f32>();
        let normal = reader.graph.normalize(&name, x, epsilon);
        let normal = reader.added(normal)?;
        let y = reader.graph.affine(&format!("{name}.scale"), normal, &gamma, &beta);
        reader.tokens_of(y).map(Some)
    }
}

/// The statistics of a pixel's codes are integers, so that every instruction set has the same bits.
#[derive(Debug)]
struct QuantizedNormalize {
    channels: usize,
    epsilon: f64,
    output: ActivationScheme,
}

impl Kernel for QuantizedNormalize {
    fn run(&self, x: Codes<'_>, y: &mut [u8], _: &mut Job<'_>) {
        let Self { channels, epsilon, output } = *self;
        for (x, y) in x(0).chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
            let (sum, squares) = sums(x);
            let (n, mean) = (channels as f64, sum as f64 / channels as f64);
            let variance = (channels as u64 * squares - sum * sum) as f64 / (n * n);
            let factor = 1.0 / ((variance + epsilon).sqrt() * f64::from(output.scale()));
            let (factor, zero) = (factor as f32, f32::from(output.zero_point()));
            let mean = mean as f32;
            for (y, &code) in y.iter_mut().zip(x) {
                let steps = (f32::from(code) - mean) * factor;
                // Clamped first, so that both sums round to the even number of steps, as codes do.
                let steps = steps.clamp(-zero, 255.0 - zero) + WHOLE - WHOLE;
                *y = (steps + zero + WHOLE).to_bits() as u8;
            }
        }
    }
}

/// A number so large that the nearest number of f32 is a whole one, whose last byte is that of the
/// integer that is added to it.
const WHOLE: f32 = 12_582_912.0;

/// The sum of codes and of their squares.
fn sums(codes: &[u8]) -> (u64, u64) {
    // Squares of so many codes do not reach beyond 32 bits.
    const PART: usize = 1 << 16;
    let (mut sum, mut squares) = (0, 0);
    for part in codes.chunks(PART) {
        let (mut of_part, mut squares_of_part) = (0_u32, 0_u32);
        for &code in part {
            let code = u32::from(code);
            of_part += code;
            squares_of_part += code * code;
        }
        sum += u64::from(of_part);
        squares += u64::from(squares_of_part);
    }
    (sum, squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Isa, Scratch};

    /// Against the definition in f64, with the nearest code of the result.
    #[test]
    fn codes_are_those_of_the_definition() {
        let input = ActivationScheme::try_new(0.03, 117).expect("valid");
        let output = ActivationScheme::try_new(0.02, 131).expect("valid");
        for channels in [1, 3, 48, 257] {
            let x: Vec<u8> = (0..5 * channels).map(|at| (at * at * 31 % 251) as u8).collect();
            let mut y = vec![0; x.len()];
            let epsilon = 1e-5 / (0.03_f64 * 0.03);
            let kernel = QuantizedNormalize { channels, epsilon, output };
            let scratch = &mut Scratch::new();
            let mut job = Job { isa: Isa::Portable, samples: 5, scratch, threads: 1 };
            kernel.run(&|_| &x, &mut y, &mut job);
            for (x, y) in x.chunks(channels).zip(y.chunks(channels)) {
                let real: Vec<f64> = x.iter().map(|&code| input.real(code).into()).collect();
                let mean = real.iter().sum::<f64>() / channels as f64;
                let squares = real.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
                let spread = (squares / channels as f64 + 1e-5).sqrt();
                for (x, &y) in real.iter().zip(y) {
                    let steps = (x - mean) / spread / 0.02;
                    let expected = (steps + 131.0).clamp(0.0, 255.0);
                    assert!((f64::from(y) - expected).abs() < 0.501, "{y} for {expected}");
                }
            }
        }
        let ones = vec![255; (1 << 17) + 3];
        assert_eq!(sums(&ones), (255 * ones.len() as u64, 65025 * ones.len() as u64));
    }
}
