//! Concatenation along the channels.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::OperationError;
use super::parameters::{Lens, Parameters};
use super::table::Joining;
use super::window::is_alike;
use crate::network::{Attribute, Graph, GraphError, Node, Value};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Concatenate {}

impl Graph {
    /// The concatenated channels of some values.
    ///
    /// # Errors
    /// [`GraphError`] for no value, or values whose axes after the channels differ.
    pub fn concatenate(&mut self, name: &str, values: &[Value]) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Concatenate {}, Parameters::default()), values)
    }
}

impl Operation for Concatenate {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        lens.check(0, 0)?;
        let joined = || OperationError::Joined { shapes: x.to_vec() };
        let mut y = x.first().ok_or_else(joined)?.clone();
        if x.iter().any(|x| !is_alike(&x[1..], &y[1..])) {
            return Err(joined());
        }
        let channels = x.iter().try_fold(0_usize, |sum, x| sum.checked_add(x[0]));
        y[0] = channels.ok_or_else(joined)?;
        Ok(y)
    }

    fn run_f32(&self, FloatJob { x, y, .. }: FloatJob<'_>) {
        let all = x.iter().copied().flatten();
        y.iter_mut().zip(all).for_each(|(y, x)| *y = *x);
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let channels = around.shapes.x.iter().map(|shape| shape[0]);
        let parts: Vec<_> = channels.zip(around.x.iter().copied()).collect();
        Ok(Some(Arc::new(Joining::new(&parts, around.y.scheme()))))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let axes = node.shapes().y.len();
        let shapes = node.shapes().x.clone();
        let read = |(at, shape): (usize, &Vec<usize>)| {
            let mut shape = shape.clone();
            shape.resize(axes, 1);
            node.read_as(at, &shape)
        };
        let inputs: Vec<String> = shapes.iter().enumerate().map(read).collect();
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        node.push("Concat", &inputs, "", vec![("axis", Attribute::Integer(1))])
    }
}

impl Registered for Concatenate {
    const KIND: &'static str = "concatenate";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{BaseOperationIr, OperationIr};

        let OperationIr::BaseFloat(BaseOperationIr::Cat(cat)) = operation else { return Ok(None) };
        let (mut values, mut ranks) = (Vec::new(), Vec::new());
        for tensor in &cat.tensors {
            let (value, shape) = reader.value(tensor)?;
            values.push(value);
            ranks.push(shape.len());
        }
        if cat.dim != 1 || ranks.iter().any(|&rank| rank != ranks[0]) {
            return Err(reader.unsupported("it joins another axis than the channels"));
        }
        let name = reader.numbered("concatenate");
        let y = reader.graph.concatenate(&name, &values);
        reader.layer(y).map(Some)
    }
}

impl Kernel for Joining {
    fn run(&self, x: Codes<'_>, y: &mut [u8], _: &mut Job<'_>) {
        for part in 0..self.count() {
            self.join(part, x(part), y);
        }
    }
}
