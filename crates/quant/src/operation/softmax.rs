//! The softmax over channels, in f32 only.

use serde::{Deserialize, Serialize};

use super::definition::{FloatJob, Operation, Registered, Work};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Attribute, Graph, Node, Value};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Softmax {}

impl Graph {
    /// `e^x / Σ e^x` over the channels of each pixel; it has no int8 kernel and runs in f32.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn softmax(&mut self, name: &str, x: Value) -> Value {
        let added = self.layer(name, Work::new(Softmax {}, Parameters::default()), &[x]);
        added.expect("it takes every shape")
    }
}

impl Operation for Softmax {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        Ok(x[0].clone())
    }

    /// The maximum is subtracted first to avoid an overflow.
    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let (channels, x) = (shapes.y[0], x[0]);
        let pixels = x.len() / channels;
        for pixel in 0..pixels {
            let of = |channel: usize| channel * pixels + pixel;
            let most = (0..channels).fold(f32::NEG_INFINITY, |most, c| most.max(x[of(c)]));
            let sum: f64 = (0..channels).map(|c| f64::from(x[of(c)] - most).exp()).sum();
            for channel in 0..channels {
                y[of(channel)] = (f64::from(x[of(channel)] - most).exp() / sum) as f32;
            }
        }
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read(0);
        node.push("Softmax", &[&x], "", vec![("axis", Attribute::Integer(1))])
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
        let x = reader.value_of_channels(&softmax.input)?;
        if softmax.axis != 1 {
            return Err(reader.unsupported("it is over another axis than the channels"));
        }
        let name = reader.numbered("softmax");
        let y = reader.graph.softmax(&name, x);
        reader.layer(Ok(y)).map(Some)
    }
}
