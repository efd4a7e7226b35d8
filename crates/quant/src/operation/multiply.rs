//! Products of two tensors, number by number or each channel by one number.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Shapes, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
#[cfg(feature = "cube")]
use super::window::channels_and_pixels;
use super::window::is_alike;
#[cfg(feature = "cube")]
use crate::kernels::Isa;
use crate::kernels::QuantizedProduct;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubePairs, Uploaded};
use crate::network::{Graph, GraphError, Node, Value};

/// The second factor may have one pixel, which multiplies all of the first.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Multiply {}

impl Graph {
    /// `a·b`, number by number; a second factor of one pixel multiplies every pixel of the first.
    ///
    /// # Errors
    /// [`GraphError`] if their shapes do not fit.
    pub fn multiply(&mut self, name: &str, a: Value, b: Value) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Multiply {}, Parameters::default()), &[a, b])
    }
}

impl Operation for Multiply {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 2)?;
        lens.check(0, 0)?;
        if is_alike(&x[1], &x[0]) || is_alike(&x[1], &x[0][..1]) {
            Ok(x[0].clone())
        } else {
            Err(OperationError::Factors { shapes: x.to_vec() })
        }
    }

    fn run_f32(&self, FloatJob { x, y, .. }: FloatJob<'_>) {
        let pixels = y.len() / x[1].len();
        for ((y, x), factor) in y.chunks_mut(pixels).zip(x[0].chunks(pixels)).zip(x[1]) {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor);
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let both = [around.x[0], around.x[1]];
        Ok(Some(Arc::new(QuantizedProduct::new(both, around.y.scheme()))))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let kernel = QuantizedProduct::new([around.x[0], around.x[1]], around.y.scheme());
        let run = |a: &[u8], b: &[u8], y: &mut [u8]| kernel.run(Isa::Portable, a, b, y);
        let [a, b] = [0, 1].map(|at| channels_and_pixels(&around.shapes.x[at]));
        Ok(Box::new(CubePairs::new(client, a, a != b, run)))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let a = node.read(0);
        let Shapes { x, .. } = node.shapes();
        // One number for each channel, and as many axes as the other factor has.
        let mut shape = vec![1; x[0].len()];
        shape[..x[1].len().min(x[0].len())].copy_from_slice(&x[1][..x[1].len().min(x[0].len())]);
        let b = node.read_as(1, &shape);
        node.push("Mul", &[&a, &b], "", vec![])
    }
}

impl Registered for Multiply {
    const KIND: &'static str = "multiply";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{NumericOperationIr as N, OperationIr};

        let OperationIr::NumericFloat(_, N::Mul(both)) = operation else { return Ok(None) };
        if let Some([a, b]) = reader.both([&both.lhs, &both.rhs])? {
            let name = reader.numbered("multiply");
            let y = reader.graph.multiply(&name, a, b);
            return reader.tokens_of(y).map(Some);
        }
        let (mut a, shape) = reader.value(&both.lhs)?;
        let (mut b, other) = reader.value(&both.rhs)?;
        if shape.len() != other.len() {
            return Err(reader.unsupported("one is flattened, the other not"));
        }
        let is_longer = other.iter().product::<usize>() > shape.iter().product();
        if is_longer {
            (a, b) = (b, a);
        }
        let (long, short) = if is_longer { (other, shape) } else { (shape, other) };
        let is_gate = short[0] == long[0] && short[1..].iter().all(|&side| side == 1);
        if short != long && !is_gate {
            (a, b) =
                (reader.repeated(&both.lhs, &both.out)?, reader.repeated(&both.rhs, &both.out)?);
        }
        let name = reader.numbered("multiply");
        let y = reader.graph.multiply(&name, a, b);
        reader.layer(y).map(Some)
    }
}

impl Kernel for QuantizedProduct {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        let [a, b] = [x(0), x(1)];
        let [of_a, of_b] = [a, b].map(|codes| (codes.len() / job.samples.max(1)).max(1));
        let pairs = a.chunks_exact(of_a).zip(b.chunks_exact(of_b));
        for ((a, b), y) in pairs.zip(y.chunks_exact_mut(of_a)) {
            self.run(job.isa, a, b, y);
        }
    }
}
