//! The softmax along an axis, in f32 only.

use serde::{Deserialize, Serialize};
use updraft_simd::matrix::exponential;
use updraft_simd::{Isa, Simd, dispatch};

use super::definition::{FloatJob, Operation, Registered, Work};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Attribute, Exact, Graph, GraphError, Node, Value};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Softmax {
    axis: usize,
    /// The factor of the input.
    factor: Exact<f32>,
}

impl Graph {
    /// `e^x / Σ e^x` along an axis of each sample, 0 for the channels; it has no int8 kernel and
    /// runs in f32.
    ///
    /// # Errors
    /// [`GraphError`] if the value does not have the axis.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn softmax(&mut self, name: &str, x: Value, axis: usize) -> Result<Value, GraphError> {
        let operation = Softmax { axis, factor: Exact(1.0) };
        self.layer(name, Work::new(operation, Parameters::default()), &[x])
    }
}

impl Operation for Softmax {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        if self.axis >= x[0].len() {
            return Err(OperationError::Axis { shape: x[0].clone(), axis: self.axis });
        }
        if !self.factor.0.is_normal() {
            return Err(OperationError::Factor { factor: self.factor.0 });
        }
        Ok(x[0].clone())
    }

    /// The maximum is subtracted first to avoid an overflow.
    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let len = shapes.y[self.axis];
        let inner: usize = shapes.y[self.axis + 1..].iter().product();
        let Exact(factor) = self.factor;
        let lines = x[0].chunks_exact(len * inner).zip(y.chunks_exact_mut(len * inner));
        for (x, y) in lines {
            for line in 0..inner {
                let of = |place: usize| place * inner + line;
                let real = |place: usize| factor * x[of(place)];
                let most = (0..len).fold(f32::NEG_INFINITY, |most, place| most.max(real(place)));
                (0..len).for_each(|place| y[of(place)] = real(place) - most);
            }
        }
        exponentials(Isa::detect().vectors(), y);
        for y in y.chunks_exact_mut(len * inner) {
            for line in 0..inner {
                let each = (line..len * inner).step_by(inner);
                let sum: f64 = each.clone().map(|at| f64::from(y[at])).sum();
                let share = (1.0 / sum) as f32;
                each.for_each(|at| y[at] *= share);
            }
        }
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let mut x = node.read(0);
        if self.factor.0 != 1.0 {
            let factor = node.constant(".factor", self.factor.0);
            x = node.push("Mul", &[&x, &factor], ".scaled", vec![]);
        }
        let axis = Attribute::Integer(1 + self.axis as i64);
        node.push("Softmax", &[&x], "", vec![("axis", axis)])
    }

    fn scale_input(&self, parameters: &Parameters, _: usize, by: &Parameters) -> Option<Work> {
        let factor = Exact(self.factor.0 * by.factor()?);
        let scaled = factor.0.is_normal().then_some(Self { factor, ..*self })?;
        Some(Work::new(scaled, parameters.clone()))
    }
}

/// `e^x` of every number.
#[inline(always)]
fn all_exponentials<S: Simd>(simd: S, x: &mut [f32]) {
    for x in x.chunks_mut(S::LANES) {
        simd.write(x, exponential(simd, simd.read(x)));
    }
}

dispatch! {
    /// Replaces every number by `e^x`.
    fn exponentials(simd, x: &mut [f32]) {
        all_exponentials(simd, x);
    }
}

impl Registered for Softmax {
    const KIND: &'static str = "softmax";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{ActivationOperationIr, OperationIr};

        use crate::module::Meaning;

        let OperationIr::Activation(ActivationOperationIr::Softmax(softmax)) = operation else {
            return Ok(None);
        };
        if let Meaning::Constant(constant) = reader.meaning(&softmax.input)? {
            return Ok(Some(Meaning::Constant(constant.softmax(softmax.axis))));
        }
        let (x, shape) = reader.value_in_order(&softmax.input)?;
        // An axis that the batch is joined with is the first one of the shape.
        let first = softmax.input.shape.len() - shape.len();
        let reason = "it is over the batch";
        let axis = softmax.axis.checked_sub(first).filter(|_| softmax.axis > 0);
        let axis = axis.ok_or_else(|| reader.unsupported(reason))?;
        if reader.graph.shape(x) != shape {
            return Err(reader.unsupported("it is over an axis of a flattened tensor"));
        }
        let name = reader.numbered("softmax");
        let y = reader.graph.softmax(&name, x, axis);
        reader.layer(y).map(Some)
    }
}
