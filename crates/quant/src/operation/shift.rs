//! A constant for each number, such as learnt positions, in f32 only.

use serde::{Deserialize, Serialize};

use super::definition::{FloatJob, Operation, Registered, Work};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Graph, GraphError, Node, Value};

/// The numbers are its biases; it has no weights.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shift {}

impl Graph {
    /// `x + numbers`, with one number for each of a sample, channels first; it has no int8 kernel
    /// and runs in f32.
    ///
    /// # Errors
    /// [`GraphError`] for another length, or NaN and infinity.
    pub fn shift(&mut self, name: &str, x: Value, numbers: &[f32]) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Shift {}, Parameters::new(&[], numbers)), &[x])
    }
}

impl Operation for Shift {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, x[0].iter().product())?;
        Ok(x[0].clone())
    }

    fn run_f32(&self, FloatJob { parameters, x, y, .. }: FloatJob<'_>) {
        let numbers = x[0].iter().zip(&parameters.bias);
        y.iter_mut().zip(numbers).for_each(|(y, (x, shift))| *y = x + shift);
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read(0);
        let shape = node.shapes().y.clone();
        let shift = node.numbers(&shape);
        node.push("Add", &[&x, &shift], "", vec![])
    }
}

impl Registered for Shift {
    const KIND: &'static str = "shift";
}
