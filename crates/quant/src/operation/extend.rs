//! Constant pixels before or after those of a tensor, such as a class token, in f32 only.

use serde::{Deserialize, Serialize};

use super::definition::{FloatJob, Operation, Registered, Work};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Attribute, Graph, GraphError, Node, Value};

/// The numbers are its biases, `[channels][pixels]`; it has no weights.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extend {
    is_after: bool,
}

impl Graph {
    /// The pixels of a line `[channels, pixels]` with constant ones before or after them: `numbers`
    /// is `[channels, more pixels]`. It has no int8 kernel and runs in f32.
    ///
    /// # Errors
    /// [`GraphError`] for a value of other axes, another length, or NaN and infinity.
    pub fn extend(
        &mut self,
        name: &str,
        x: Value,
        numbers: &[f32],
        is_after: bool,
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Extend { is_after }, Parameters::new(&[], numbers)), &[x])
    }
}

impl Operation for Extend {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        let [channels, pixels] = x[0][..] else {
            return Err(OperationError::Joined { shapes: x.to_vec() });
        };
        let more = lens.bias / channels;
        lens.check(0, channels * more.max(1))?;
        Ok(vec![channels, pixels + more])
    }

    fn run_f32(&self, FloatJob { parameters, shapes, x, y, .. }: FloatJob<'_>) {
        let (channels, pixels) = (shapes.y[0], shapes.y[1]);
        let own = shapes.x[0][1];
        let first = if self.is_after { own } else { 0 };
        let more = parameters.bias.chunks_exact((parameters.bias.len() / channels).max(1));
        for ((y, x), more) in y.chunks_exact_mut(pixels).zip(x[0].chunks_exact(own)).zip(more) {
            y[first..first + more.len()].copy_from_slice(more);
            let first = if self.is_after { 0 } else { more.len() };
            y[first..first + own].copy_from_slice(x);
        }
    }

    /// The constant is repeated for each sample of the batch: `0·(a pixel) + constant`.
    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read(0);
        let (y, own) = (node.shapes().y.clone(), node.shapes().x[0][1]);
        let more = node.numbers(&[y[0], y[1] - own]);
        let [first, last, axis] = [("first", 0), ("last", 1), ("axis", 2)]
            .map(|(end, place)| node.integers(&format!(".{end}"), &[place]));
        let pixel = node.push("Slice", &[&x, &first, &last, &axis], ".pixel", vec![]);
        let zero = node.constant(".zero", 0.0);
        let zeros = node.push("Mul", &[&pixel, &zero], ".zeros", vec![]);
        let more = node.push("Add", &[&zeros, &more], ".more", vec![]);
        let both = if self.is_after { [&x, &more] } else { [&more, &x] };
        let axis = vec![("axis", Attribute::Integer(2))];
        node.push("Concat", &[both[0], both[1]], "", axis)
    }
}

impl Registered for Extend {
    const KIND: &'static str = "extend";
}
