//! Concatenation along the channels or another axis.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[cfg(feature = "cube")]
use super::definition::Shapes;
use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::OperationError;
use super::parameters::{Lens, Parameters};
use super::table::Joining;
#[cfg(feature = "cube")]
use super::table::Table;
#[cfg(feature = "cube")]
use super::window::channels_and_pixels;
use super::window::is_alike;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeCopies, Places, Uploaded};
use crate::network::{Attribute, Graph, GraphError, Node, Value};
#[cfg(feature = "cube")]
use crate::scheme::ActivationScheme;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Concatenate {
    axis: usize,
}

impl Graph {
    /// Some values, joined along an axis of each sample, 0 for the channels.
    ///
    /// # Errors
    /// [`GraphError`] for no value, or values that differ in another axis.
    pub fn concatenate(
        &mut self,
        name: &str,
        values: &[Value],
        axis: usize,
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Concatenate { axis }, Parameters::default()), values)
    }
}

impl Operation for Concatenate {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        lens.check(0, 0)?;
        let joined = || OperationError::Joined { shapes: x.to_vec() };
        let mut y = x.first().ok_or_else(joined)?.clone();
        let axis = self.axis;
        let agrees = |x: &Vec<usize>| {
            // Axes of length 1 at the end may be missing behind the channels only.
            x.len() > axis
                && x[..axis] == y[..axis]
                && (is_alike(&x[axis + 1..], &y[axis + 1..]) && (axis == 0 || x.len() == y.len()))
        };
        if !x.iter().all(agrees) {
            return Err(joined());
        }
        let len = x.iter().try_fold(0_usize, |sum, x| sum.checked_add(x[axis]));
        y[axis] = len.ok_or_else(joined)?;
        Ok(y)
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let run = |shape: &[usize]| shape[self.axis..].iter().product::<usize>();
        let all = run(&shapes.y);
        let mut first = 0;
        for (x, shape) in x.iter().zip(&shapes.x) {
            let len = run(shape);
            for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(all)) {
                y[first..first + len].copy_from_slice(x);
            }
            first += len;
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        // The codes of a pixel are its channels; those of an axis behind them are whole pixels.
        let run = |shape: &Vec<usize>| match self.axis {
            0 => shape[0],
            axis => shape[0] * shape[axis..].iter().product::<usize>(),
        };
        let runs = around.shapes.x.iter().map(run);
        let parts: Vec<_> = runs.zip(around.x.iter().copied()).collect();
        Ok(Some(Arc::new(Joining::new(&parts, around.y.scheme()))))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let Shapes { x, y } = around.shapes;
        let pixels = |shape: &[usize]| shape[self.axis..].iter().product::<usize>();
        let mut first = 0;
        let part = |(shape, &scheme): (&Vec<usize>, &ActivationScheme)| {
            let start = first;
            let places = match self.axis {
                0 => {
                    first += shape[0];
                    Places::of_channels(y[0], start, shape[0])
                }
                _ => {
                    first += pixels(shape);
                    Places::of_pixels(y[0], pixels(y), start, pixels(shape))
                }
            };
            let to = around.y.scheme();
            let table = (scheme != to).then(|| *Table::new(scheme, to, |x| x).codes());
            (places, table)
        };
        let parts: Vec<_> = x.iter().zip(around.x).map(part).collect();
        Ok(Box::new(CubeCopies::new(client, channels_and_pixels(y), &parts)))
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
        let axis = Attribute::Integer(1 + self.axis as i64);
        node.push("Concat", &inputs, "", vec![("axis", axis)])
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
        reader.joined(&cat.tensors, cat.dim).map(Some)
    }
}

impl Kernel for Joining {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        for part in 0..self.count() {
            self.join(job.isa, part, x(part), y);
        }
    }
}
