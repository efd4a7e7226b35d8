//! Activations and other element-wise functions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::function::{Binary, Function, Line, Unary};
use super::parameters::{Lens, Parameters};
use super::table::Table;
#[cfg(feature = "cube")]
use super::window::channels_and_pixels;
use crate::clip::Clip;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeTable, Uploaded};
use crate::network::{Attribute, Graph, GraphError, Node, Value};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Activation {
    function: Function,
}

impl Graph {
    /// `f(x)`, element by element; in int8 a table of 256 codes, or for `max(x, a)`, `min(x, b)` and
    /// both, such as `ReLU6`, limits of the layer before it.
    ///
    /// # Errors
    /// [`GraphError`] for a function `a·x + b` whose `a` or `b` no f32 holds.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn function(
        &mut self,
        name: &str,
        x: Value,
        function: &Function,
    ) -> Result<Value, GraphError> {
        if let Some(by) = function.clip() {
            return Ok(self.clip(name, x, by));
        }
        if let Some([factor, offset]) = function.line() {
            if [factor, offset] == [1.0, 0.0] {
                return Ok(x);
            }
            let channels = self.shape(x)[0];
            let [scale, shift] = [factor, offset].map(|number| vec![number as f32; channels]);
            return self.affine(name, x, &scale, &shift);
        }
        let operation = Activation { function: function.clone() };
        self.layer(name, Work::new(operation, Parameters::default()), &[x])
    }
}

/// A clip that cannot be fused.
pub(crate) fn clipping(by: Clip) -> Work {
    let [low, high] = by.limits();
    let mut function = Function::identity();
    if low > f32::NEG_INFINITY {
        function = Function::binary(Binary::Maximum, &function, &Function::constant(low));
    }
    if high < f32::INFINITY {
        function = Function::binary(Binary::Minimum, &function, &Function::constant(high));
    }
    Work::new(Activation { function }, Parameters::default())
}

impl Operation for Activation {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        Ok(x[0].clone())
    }

    fn run_f32(&self, FloatJob { x, y, space, .. }: FloatJob<'_>) {
        if let Some(clip) = self.function.clip() {
            y.copy_from_slice(x[0]);
            clip.apply(y);
            return;
        }
        for (y, &x) in y.iter_mut().zip(x[0]) {
            *y = self.function.of_within(x, &mut space.values);
        }
    }

    fn live_range(&self) -> [f32; 2] {
        self.function.live_range()
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let table = Table::new(around.x[0], around.y.scheme(), |x| self.function.of(x));
        Ok(Some(Arc::new(table)))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let table = Table::new(around.x[0], around.y.scheme(), |x| self.function.of(x));
        let sizes = channels_and_pixels(&around.shapes.y);
        Ok(Box::new(CubeTable::new(client, sizes, table.codes())))
    }

    /// One operator per line.
    fn export(&self, node: &mut Node<'_>) -> String {
        let mut values: Vec<String> = Vec::new();
        for (index, line) in self.function.lines().iter().enumerate() {
            let to = |number| vec![("to", Attribute::Integer(number))];
            let (value, truth) = (format!(".{index}"), format!(".{index}.truth"));
            let given = match *line {
                Line::X => node.read(0),
                Line::Constant(number) => node.constant(&value, number.0),
                Line::Unary(operation, a) => {
                    node.push(unary(operation), &[&values[a]], &value, vec![])
                }
                Line::Binary(Binary::Greater, [a, b]) => {
                    let greater = node.push("Greater", &[&values[a], &values[b]], &truth, vec![]);
                    node.push("Cast", &[&greater], &value, to(1))
                }
                Line::Binary(operation, [a, b]) => {
                    node.push(binary(operation), &[&values[a], &values[b]], &value, vec![])
                }
                Line::Choose([condition, yes, no]) => {
                    // 9 is ONNX's number of the Boolean type.
                    let condition = node.push("Cast", &[&values[condition]], &truth, to(9));
                    node.push("Where", &[&condition, &values[yes], &values[no]], &value, vec![])
                }
            };
            values.push(given);
        }
        values.pop().expect("a function has a line")
    }
}

impl Registered for Activation {
    const KIND: &'static str = "function";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        reader.arithmetic(operation)
    }
}

impl Kernel for Table {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.look_up(job.isa, x(0), y);
    }
}

const fn unary(operation: Unary) -> &'static str {
    match operation {
        Unary::Rectifier => "Relu",
        Unary::Sigmoid => "Sigmoid",
        Unary::Tanh => "Tanh",
        Unary::Exponential => "Exp",
        Unary::Logarithm => "Log",
        Unary::SquareRoot => "Sqrt",
        Unary::Erf => "Erf",
        Unary::Absolute => "Abs",
        Unary::Negative => "Neg",
        Unary::Reciprocal => "Reciprocal",
        Unary::Round => "Round",
    }
}

const fn binary(operation: Binary) -> &'static str {
    match operation {
        Binary::Add => "Add",
        Binary::Subtract => "Sub",
        Binary::Multiply => "Mul",
        Binary::Divide => "Div",
        Binary::Minimum => "Min",
        Binary::Maximum => "Max",
        Binary::Greater => "Greater",
        Binary::Power => "Pow",
    }
}
