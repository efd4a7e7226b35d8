//! Operations without a kernel of this crate, which burn computes in f32, sample by sample.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::flex::FlexDevice;
use burn::backend::ir::{
    BaseOperationIr, IrVisitorMut, OperationIr, ScalarIr, TensorId, TensorIr, TensorStatus,
};
use burn::backend::{Flex, try_read_sync};
use burn::tensor::{DType, TensorData};
use burn_router::TensorInterpreter;
use serde::{Deserialize, Serialize};

use super::definition::{FloatJob, Operation, Registered, Shapes, Work};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Exact, Graph, GraphError, Node, Value};

/// The most numbers of a tensor in between.
const MOST: usize = 1 << 28;

/// Recorded operations for a batch of one sample. The constants that they read are the biases, one
/// after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(crate) struct InBurn {
    /// In the order of execution.
    pub(crate) operations: Vec<OperationIr>,
    pub(crate) inputs: Vec<TensorIr>,
    pub(crate) constants: Vec<TensorIr>,
    pub(crate) output: TensorIr,
}

/// The same in a file, whose numbers are exact and may be infinite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    operations: Vec<OperationIr>,
    /// The real numbers of the operations, which are zeros there.
    numbers: Vec<Exact<f64>>,
    inputs: Vec<TensorIr>,
    constants: Vec<TensorIr>,
    output: TensorIr,
}

impl Graph {
    /// Adds recorded operations.
    pub(crate) fn in_burn(
        &mut self,
        name: &str,
        operation: InBurn,
        constants: &[f32],
        x: &[Value],
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(operation, Parameters::new(&[], constants)), x)
    }
}

impl InBurn {
    /// Whether every tensor is computed before it is read, has a size that memory can hold, and is
    /// computed by the numbers of the input alone.
    fn is_whole(&self) -> bool {
        let given = self.inputs.iter().chain(&self.constants);
        let mut known: HashSet<TensorId> = given.clone().map(|tensor| tensor.id).collect();
        let fits = |tensor: &TensorIr| {
            let mut sides = tensor.shape.iter();
            let count = sides.try_fold(1_usize, |count, &side| count.checked_mul(side));
            count.is_some_and(|count| count <= MOST)
        };
        let computes = |operation: &OperationIr| {
            let reads_known = operation.inputs().all(|tensor| known.contains(&tensor.id));
            known.extend(operation.outputs().map(|tensor| tensor.id));
            reads_known && is_pure(operation) && operation.outputs().all(fits)
        };
        let mut all = given;
        all.all(fits) && self.operations.iter().all(computes) && known.contains(&self.output.id)
    }

    /// The output for the tensors that are given; `None` if burn does not compute it.
    pub(crate) fn try_compute(&self, given: Vec<(TensorId, TensorData)>) -> Option<TensorData> {
        catch_unwind(AssertUnwindSafe(|| self.compute(given))).ok()
    }

    fn compute(&self, given: Vec<(TensorId, TensorData)>) -> TensorData {
        let mut interpreter = TensorInterpreter::<Flex>::new(FlexDevice);
        for (id, data) in given {
            interpreter.register_tensor_data_id(id, data);
        }
        for operation in &self.operations {
            interpreter.register_op(operation.clone());
        }
        let output = TensorIr { status: TensorStatus::ReadWrite, ..self.output.clone() };
        let read = try_read_sync(interpreter.read_tensor_async(output));
        read.expect("the CPU computes at once").expect("the operations were computed")
    }

    /// The tensors of a sample: its inputs, and the constants.
    fn given(&self, x: &[&[f32]], constants: &[f32]) -> Vec<(TensorId, TensorData)> {
        let mut rest = constants;
        let constants = self.constants.iter().map(|tensor| {
            let (now, later) = rest.split_at(tensor.shape.num_elements());
            rest = later;
            (tensor.id, data(tensor, now))
        });
        let constants: Vec<_> = constants.collect();
        let inputs = self.inputs.iter().zip(x).map(|(tensor, x)| (tensor.id, data(tensor, x)));
        inputs.chain(constants).collect()
    }
}

/// Numbers as the data of a recorded tensor; a mask is set where they are not zero.
pub(crate) fn data(tensor: &TensorIr, numbers: &[f32]) -> TensorData {
    TensorData::new(numbers.to_vec(), tensor.shape.clone()).convert_dtype(tensor.dtype)
}

/// Whether an operation is a function of its inputs, for any number of calls.
pub(crate) fn is_pure(operation: &OperationIr) -> bool {
    use burn::backend::ir::{FloatOperationIr, NumericOperationIr};

    let is_random = match operation {
        OperationIr::Float(_, FloatOperationIr::Random(_)) => true,
        OperationIr::NumericFloat(_, operation) | OperationIr::NumericInt(_, operation) => {
            matches!(operation, NumericOperationIr::IntRandom(_))
        }
        _ => false,
    };
    let is_other = matches!(
        operation,
        OperationIr::Custom(_)
            | OperationIr::Init(_)
            | OperationIr::Drop(_)
            | OperationIr::Distributed(_)
            | OperationIr::BaseFloat(BaseOperationIr::Empty(_))
    );
    !is_random && !is_other
}

/// The shape of a sample of an output for a batch of one, which may be joined with another axis.
fn sample(shape: &[usize]) -> Vec<usize> {
    match shape {
        [1] | [] => vec![1],
        [1, rest @ ..] => rest.to_vec(),
        _ => shape.to_vec(),
    }
}

impl Operation for InBurn {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, self.inputs.len())?;
        let count = |tensors: &[TensorIr]| tensors.iter().map(|t| t.shape.num_elements()).sum();
        lens.check(0, count(&self.constants))?;
        let own = self.inputs.iter().map(|tensor| tensor.shape.num_elements());
        let given = x.iter().map(|shape| shape.iter().product::<usize>());
        match own.eq(given) {
            true => Ok(sample(&self.output.shape)),
            false => Err(OperationError::Recorded { shapes: x.to_vec() }),
        }
    }

    fn run_f32(&self, FloatJob { parameters, x, y, .. }: FloatJob<'_>) {
        let output = self.compute(self.given(x, &parameters.bias));
        y.copy_from_slice(output.as_slice::<f32>().expect("its output is in f32"));
    }

    fn is_runnable(&self, parameters: &Parameters, shapes: &Shapes) -> bool {
        let zeros: Vec<_> = shapes.x.iter().map(|x| vec![0.0; x.iter().product()]).collect();
        let zeros: Vec<&[f32]> = zeros.iter().map(Vec::as_slice).collect();
        let output = self.try_compute(self.given(&zeros, &parameters.bias));
        let numbers: usize = shapes.y.iter().product();
        output.is_some_and(|output| output.as_slice::<f32>().is_ok_and(|y| y.len() == numbers))
    }

    fn is_in_burn(&self) -> bool {
        true
    }

    fn export(&self, _: &mut Node<'_>) -> String {
        unreachable!("it is not in ONNX")
    }
}

impl Registered for InBurn {
    const KIND: &'static str = "burn";
}

impl From<InBurn> for Stored {
    fn from(InBurn { mut operations, inputs, constants, output }: InBurn) -> Self {
        let mut numbers = Vec::new();
        let mut taken = EachNumber(|number: &mut f64| numbers.push(Exact(std::mem::take(number))));
        operations.iter_mut().for_each(|operation| operation.visit_mut(&mut taken));
        Self { operations, numbers, inputs, constants, output }
    }
}

impl TryFrom<Stored> for InBurn {
    type Error = &'static str;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let Stored { mut operations, numbers, inputs, constants, output } = stored;
        let mut rest = numbers.into_iter();
        let mut is_short = false;
        let mut restored = EachNumber(|number: &mut f64| match rest.next() {
            Some(Exact(stored)) => *number = stored,
            None => is_short = true,
        });
        operations.iter_mut().for_each(|operation| operation.visit_mut(&mut restored));
        let is_long = rest.next().is_some();
        let read = Self { operations, inputs, constants, output };
        match !is_short && !is_long && read.is_whole() && read.output.dtype == DType::F32 {
            true => Ok(read),
            false => Err("recorded operations must read tensors that are there"),
        }
    }
}

/// Calls a closure for each real number that is a setting of an operation.
struct EachNumber<F>(F);

impl<F: FnMut(&mut f64)> IrVisitorMut for EachNumber<F> {
    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        if let ScalarIr::Float(number) = scalar {
            (self.0)(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::ir::{FlipOpIr, MaskFillOpIr};
    use burn::tensor::{BoolStore, Shape};

    use super::*;

    fn tensor(id: u64, shape: &[usize], dtype: DType) -> TensorIr {
        let (id, shape) = (TensorId::new(id), Shape::from(shape.to_vec()));
        TensorIr { id, shape, status: TensorStatus::ReadOnly, dtype }
    }

    /// A row in reverse, then filled with infinity where a constant mask is set.
    fn filled(axes: Vec<usize>) -> InBurn {
        let (input, turned) = (tensor(1, &[1, 3], DType::F32), tensor(2, &[1, 3], DType::F32));
        let (mask, output) =
            (tensor(3, &[1, 3], DType::Bool(BoolStore::Native)), tensor(4, &[1, 3], DType::F32));
        let flip = FlipOpIr { input: input.clone(), out: turned.clone(), axes };
        let fill = MaskFillOpIr {
            tensor: turned,
            mask: mask.clone(),
            value: ScalarIr::Float(f64::NEG_INFINITY),
            out: output.clone(),
        };
        let operations = vec![
            OperationIr::BaseFloat(BaseOperationIr::Flip(flip)),
            OperationIr::BaseFloat(BaseOperationIr::MaskFill(fill)),
        ];
        InBurn { operations, inputs: vec![input], constants: vec![mask], output }
    }

    #[test]
    fn a_written_operation_is_read_and_computed() {
        let text = serde_json::to_string(&filled(vec![1])).expect("settings");
        let read: InBurn = serde_json::from_str(&text).expect("the same");
        assert_eq!(serde_json::to_string(&read).expect("settings"), text);
        let given = read.given(&[&[1.0, 2.0, 3.0]], &[0.0, 1.0, 0.0]);
        let y = read.try_compute(given).expect("computed");
        let y: Vec<f32> = y.try_into_vec().expect("in f32");
        assert_eq!(y, [3.0, f32::NEG_INFINITY, 1.0]);
        assert_eq!(read.shape(&[vec![3]], Lens { weights: 0, bias: 3 }), Ok(vec![3]));
        assert!(read.shape(&[vec![4]], Lens { weights: 0, bias: 3 }).is_err());
        assert!(read.shape(&[vec![3]], Lens { weights: 0, bias: 2 }).is_err());
    }

    #[test]
    fn a_damaged_operation_is_refused() {
        let read = |operation: &InBurn| {
            let text = serde_json::to_string(operation).expect("settings");
            serde_json::from_str::<InBurn>(&text).is_ok()
        };
        let mut other = filled(vec![1]);
        other.inputs[0].id = TensorId::new(9);
        assert!(!read(&other), "it reads a tensor that is not there");
        let mut other = filled(vec![1]);
        other.constants[0].shape = Shape::from(vec![1_usize << 31; 3]);
        assert!(!read(&other), "it is too large");
        let mut other = filled(vec![1]);
        other.output.dtype = DType::I64;
        assert!(!read(&other), "it does not return numbers of f32");
        let shapes = Shapes { x: vec![vec![3]], y: vec![3] };
        let parameters = Parameters::new(&[], &[0.0; 3]);
        assert!(filled(vec![1]).is_runnable(&parameters, &shapes));
        assert!(!filled(vec![7]).is_runnable(&parameters, &shapes), "there is no such axis");
    }
}
