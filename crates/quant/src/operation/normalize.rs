//! Normalization of each pixel over its channels, or of groups of channels.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
#[cfg(feature = "cube")]
use crate::kernels::cube::{DeviceReason, Uploaded};
use crate::network::{Attribute, Exact, Graph, GraphError, Node, Value};
use crate::scheme::ActivationScheme;

/// The scale and shift of the layer are a scale and shift of channels after it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Normalize {
    epsilon: Exact<f32>,
    over: Over,
    /// Whether the mean is subtracted.
    is_centered: bool,
}

/// The numbers that have statistics of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// The channels of a pixel.
    Pixel,
    /// A group of channels, of so many groups, with all their pixels.
    Groups(usize),
}

impl Normalize {
    pub(crate) const fn new(epsilon: f32, over: Over, is_centered: bool) -> Self {
        Self { epsilon: Exact(epsilon), over, is_centered }
    }
}

impl Graph {
    /// `(x − mean)/√(variance + epsilon)` with the mean and the variance of each pixel's channels.
    ///
    /// In int8, both are computed from integer sums, exactly.
    ///
    /// # Errors
    /// [`GraphError`] if `epsilon` is not a positive normal number.
    pub fn normalize(&mut self, name: &str, x: Value, epsilon: f32) -> Result<Value, GraphError> {
        self.normalized(name, x, Normalize::new(epsilon, Over::Pixel, true))
    }

    pub(crate) fn normalized(
        &mut self,
        name: &str,
        x: Value,
        by: Normalize,
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(by, Parameters::default()), &[x])
    }
}

impl Operation for Normalize {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        if let Over::Groups(groups) = self.over
            && (groups == 0 || !x[0][0].is_multiple_of(groups))
        {
            return Err(OperationError::Groups { shape: x[0].clone(), groups });
        }
        let Exact(epsilon) = self.epsilon;
        match epsilon.is_normal() && epsilon > 0.0 {
            true => Ok(x[0].clone()),
            false => Err(OperationError::Epsilon { epsilon }),
        }
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let pixels = x[0].len() / shapes.y[0];
        match self.over {
            Over::Pixel => (0..pixels)
                .for_each(|pixel| self.normalize(x[0], y, (pixel..x[0].len()).step_by(pixels))),
            Over::Groups(groups) => {
                let len = x[0].len() / groups;
                (0..groups).for_each(|group| {
                    self.normalize(x[0], y, group * len..(group + 1) * len);
                });
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
        let numbers = around.shapes.y.iter().product();
        let zero = around.x[0].zero_point();
        Ok(Some(Arc::new(QuantizedNormalize {
            by: *self,
            channels,
            numbers,
            zero,
            epsilon,
            output,
        })))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, _: &cubecl::client::Client, _: &Around<'_>) -> Uploaded {
        Err(DeviceReason::NeedsF64)
    }

    /// `LayerNormalization`, with the channels as the last axis, where it is one.
    fn export(&self, node: &mut Node<'_>) -> String {
        let shape = node.shapes().y.clone();
        if (self.over, self.is_centered) != (Over::Pixel, true) {
            return self.export_by_numbers(node, &shape);
        }
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

impl Normalize {
    /// Normalizes the numbers at some places.
    fn normalize(&self, x: &[f32], y: &mut [f32], each: impl Iterator<Item = usize> + Clone) {
        let count = each.clone().count() as f64;
        let mean = match self.is_centered {
            true => each.clone().map(|at| f64::from(x[at])).sum::<f64>() / count,
            false => 0.0,
        };
        let squares: f64 = each.clone().map(|at| (f64::from(x[at]) - mean).powi(2)).sum();
        let factor = 1.0 / (squares / count + f64::from(self.epsilon.0)).sqrt();
        for at in each {
            y[at] = ((f64::from(x[at]) - mean) * factor) as f32;
        }
    }

    /// The definition, operator by operator.
    fn export_by_numbers(&self, node: &mut Node<'_>, shape: &[usize]) -> String {
        let mut x = node.read(0);
        let axis = match self.over {
            Over::Pixel => 1,
            Over::Groups(groups) => {
                x = node.shaped(&x, &[groups, shape.iter().product::<usize>() / groups]);
                2
            }
        };
        let axes = node.integers(".axes", &[axis]);
        if self.is_centered {
            let mean = node.push("ReduceMean", &[&x, &axes], ".mean", vec![]);
            x = node.push("Sub", &[&x, &mean], ".centered", vec![]);
        }
        let squares = node.push("Mul", &[&x, &x], ".squares", vec![]);
        let variance = node.push("ReduceMean", &[&squares, &axes], ".variance", vec![]);
        let epsilon = node.constant(".epsilon", self.epsilon.0);
        let sum = node.push("Add", &[&variance, &epsilon], ".sum", vec![]);
        let root = node.push("Sqrt", &[&sum], ".root", vec![]);
        let y = node.push("Div", &[&x, &root], "", vec![]);
        match self.over {
            Over::Pixel => y,
            Over::Groups(_) => node.shaped(&y, shape),
        }
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

/// The statistics of codes are integers, so that every instruction set has the same bits.
#[derive(Debug)]
struct QuantizedNormalize {
    by: Normalize,
    channels: usize,
    /// Numbers of a sample.
    numbers: usize,
    /// The code of zero in the input.
    zero: u8,
    /// In units of the input's codes, squared.
    epsilon: f64,
    output: ActivationScheme,
}

impl Kernel for QuantizedNormalize {
    fn run(&self, x: Codes<'_>, y: &mut [u8], _: &mut Job<'_>) {
        let channels = self.channels;
        let Over::Groups(groups) = self.by.over else {
            for (x, y) in x(0).chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                self.write(x, y, self.line(sums(x), channels));
            }
            return;
        };
        let each = channels / groups;
        for (x, y) in x(0).chunks_exact(self.numbers).zip(y.chunks_exact_mut(self.numbers)) {
            for first in (0..channels).step_by(each) {
                let of_group = |pixel: &[u8]| sums(&pixel[first..first + each]);
                let total = x.chunks_exact(channels).map(of_group);
                let total = total.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
                let line = self.line(total, self.numbers / groups);
                for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                    self.write(&x[first..first + each], &mut y[first..first + each], line);
                }
            }
        }
    }
}

impl QuantizedNormalize {
    /// What is subtracted from codes, and the steps of the output for each, by the sums of `count`
    /// codes and of their squares.
    fn line(&self, (sum, squares): (u64, u64), count: usize) -> [f32; 2] {
        let (n, zero) = (count as f64, u64::from(self.zero));
        let (mean, variance) = if self.by.is_centered {
            (sum as f64 / n, (count as u64 * squares - sum * sum) as f64 / (n * n))
        } else {
            let around_zero = squares + count as u64 * zero * zero - 2 * zero * sum;
            (zero as f64, around_zero as f64 / n)
        };
        let scale = f64::from(self.output.scale());
        [mean as f32, (1.0 / ((variance + self.epsilon).sqrt() * scale)) as f32]
    }

    fn write(&self, x: &[u8], y: &mut [u8], [mean, factor]: [f32; 2]) {
        let zero = f32::from(self.output.zero_point());
        for (y, &code) in y.iter_mut().zip(x) {
            let steps = (f32::from(code) - mean) * factor;
            // Clamped first, so that both sums round to the even number of steps, as codes do.
            let steps = steps.clamp(-zero, 255.0 - zero) + WHOLE - WHOLE;
            *y = (steps + zero + WHOLE).to_bits() as u8;
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
        let cases = [(1, Over::Pixel), (3, Over::Pixel), (48, Over::Pixel), (257, Over::Pixel)];
        let of_groups = [(6, Over::Groups(2)), (5, Over::Groups(5)), (32, Over::Groups(1))];
        for (channels, over) in cases.into_iter().chain(of_groups) {
            for is_centered in [true, false] {
                const PIXELS: usize = 5;
                let numbers = PIXELS * channels;
                let x: Vec<u8> = (0..2 * numbers).map(|at| (at * at * 31 % 251) as u8).collect();
                let mut y = vec![0; x.len()];
                let epsilon = 1e-5 / (0.03_f64 * 0.03);
                let by = Normalize::new(1e-5, over, is_centered);
                let zero = input.zero_point();
                let kernel = QuantizedNormalize { by, channels, numbers, zero, epsilon, output };
                let scratch = &mut Scratch::new();
                let mut job = Job { isa: Isa::Portable, samples: 2, scratch, threads: 1 };
                kernel.run(&|_| &x, &mut y, &mut job);
                let alike = |a: usize, b: usize| match over {
                    Over::Pixel => a / channels == b / channels,
                    Over::Groups(groups) => {
                        let group = |at: usize| at % channels / (channels / groups);
                        a / numbers == b / numbers && group(a) == group(b)
                    }
                };
                for (at, &given) in y.iter().enumerate() {
                    let real = |at: usize| f64::from(input.real(x[at]));
                    let others: Vec<f64> =
                        (0..x.len()).filter(|&other| alike(at, other)).map(real).collect();
                    let n = others.len() as f64;
                    let mean = if is_centered { others.iter().sum::<f64>() / n } else { 0.0 };
                    let squares = others.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
                    let spread = (squares / n + 1e-5).sqrt();
                    let expected = ((real(at) - mean) / spread / 0.02 + 131.0).clamp(0.0, 255.0);
                    assert!((f64::from(given) - expected).abs() < 0.501, "{given} for {expected}");
                }
            }
        }
        let ones = vec![255; (1 << 17) + 3];
        assert_eq!(sums(&ones), (255 * ones.len() as u64, 65025 * ones.len() as u64));
    }
}
