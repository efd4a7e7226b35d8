//! Sums of two tensors.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, PackError, Packed, Registered, Work,
};
use super::error::{OperationError, check_count, check_factor};
use super::parameters::{Lens, Parameters};
#[cfg(feature = "cube")]
use super::window::channels_and_pixels;
use super::window::is_alike;
#[cfg(feature = "cube")]
use crate::kernels::Isa;
use crate::kernels::QuantizedAdd;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubePairs, Uploaded};
use crate::network::{Exact, Graph, GraphError, Node, Value};

/// Each summand has a positive factor.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    factors: [Exact<f32>; 2],
}

impl Graph {
    /// `a + b`.
    ///
    /// # Errors
    /// [`GraphError`] if their shapes differ.
    pub fn add(&mut self, name: &str, a: Value, b: Value) -> Result<Value, GraphError> {
        let operation = Add { factors: [Exact(1.0); 2] };
        self.layer(name, Work::new(operation, Parameters::default()), &[a, b])
    }
}

impl Add {
    fn quantized(&self, around: &Around<'_>) -> Result<QuantizedAdd, PackError> {
        let [a, b] = [0, 1].map(|at| around.x[at].times(self.factors[at].0));
        let inputs = [a.map_err(PackError::Factor)?, b.map_err(PackError::Factor)?];
        Ok(QuantizedAdd::new(inputs, around.y))
    }
}

impl Operation for Add {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 2)?;
        lens.check(0, 0)?;
        self.factors.iter().try_for_each(|factor| check_factor(factor.0))?;
        if is_alike(&x[0], &x[1]) {
            Ok(x[0].clone())
        } else {
            Err(OperationError::Summands { shapes: x.to_vec() })
        }
    }

    fn run_f32(&self, FloatJob { x, y, .. }: FloatJob<'_>) {
        let [Exact(of_a), Exact(of_b)] = self.factors;
        for ((y, a), b) in y.iter_mut().zip(x[0]).zip(x[1]) {
            *y = of_a * a + of_b * b;
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        Ok(Some(Arc::new(self.quantized(around)?)))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let kernel = self.quantized(around).expect("it was packed before");
        let run = |a: &[u8], b: &[u8], y: &mut [u8]| kernel.run(Isa::Portable, a, b, y);
        let sizes = channels_and_pixels(&around.shapes.y);
        Ok(Box::new(CubePairs::new(client, sizes, false, run)))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let [a, b] = [0, 1].map(|at| node.read_scaled(at, self.factors[at].0));
        node.push("Add", &[&a, &b], "", vec![])
    }

    fn may_be_clipped(&self) -> bool {
        true
    }

    fn scale_input(&self, _: &Parameters, position: usize, by: &Parameters) -> Option<Work> {
        let mut factors = self.factors;
        factors[position].0 *= by.factor()?;
        Some(Work::new(Self { factors }, Parameters::default()))
    }

    fn summands(&self) -> Option<[f32; 2]> {
        Some(self.factors.map(|factor| factor.0))
    }
}

impl Registered for Add {
    const KIND: &'static str = "add";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{NumericOperationIr as N, OperationIr};

        let (both, is_difference) = match operation {
            OperationIr::NumericFloat(_, N::Add(both)) => (both, false),
            OperationIr::NumericFloat(_, N::Sub(both)) => (both, true),
            _ => return Ok(None),
        };
        let tokens = reader.both([&both.lhs, &both.rhs])?;
        let (a, mut b) = match &tokens {
            Some([a, b]) => (*a, *b),
            None => {
                let (a, shape) = reader.value(&both.lhs)?;
                let (b, other) = reader.value(&both.rhs)?;
                if shape.len() != other.len() {
                    return Err(reader.unsupported("one is flattened, the other not"));
                }
                match shape == other {
                    true => (a, b),
                    false => {
                        let [a, b] = [&both.lhs, &both.rhs];
                        (reader.repeated(a, &both.out)?, reader.repeated(b, &both.out)?)
                    }
                }
            }
        };
        if is_difference {
            let channels = reader.graph.shape(b)[0];
            let name = reader.numbered("negative");
            let (minus, zeros) = (vec![-1.0; channels], vec![0.0; channels]);
            let negative = reader.graph.affine(&name, b, &minus, &zeros);
            b = reader.added(negative)?;
        }
        let name = reader.numbered("add");
        let y = reader.graph.add(&name, a, b);
        if tokens.is_some() { reader.tokens_of(y) } else { reader.layer(y) }.map(Some)
    }
}

impl Kernel for QuantizedAdd {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.run(job.isa, x(0), x(1), y);
    }
}
