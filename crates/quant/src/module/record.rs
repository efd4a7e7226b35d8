//! A module recorded twice by burn's capture device, to find what depends on the batch.

use std::collections::{BTreeMap, HashMap, HashSet};

use burn::backend::Capture;
use burn::backend::ir::{BaseOperationIr, IrVisitorMut, OperationIr, TensorId, TensorIr};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Slice, Tensor, TensorData};

use super::error::{CaptureError, Place};
use super::tensors::Tensors;

/// The sizes of the batches that are recorded; 1 would hide an axis that is left out.
///
/// burn computes linear layers of tokens in one of two forms, by their sizes and that of the batch.
/// Where a pair takes both forms, the next pair is recorded.
const SIZES: [[usize; 2]; 3] = [[2, 3], [4, 5], [16, 17]];

/// The operations that burn recorded in one run.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) operations: Vec<OperationIr>,
    /// The size of the batch.
    pub(super) batch: usize,
    pub(super) values: BTreeMap<TensorId, TensorData>,
    pub(super) inputs: Vec<TensorId>,
    pub(super) outputs: Vec<TensorId>,
    /// The path of each parameter.
    pub(super) names: HashMap<TensorId, String>,
    /// The tensors whose first axis is the batch, or the batch with another axis behind it.
    pub(super) of_batch: HashSet<TensorId>,
}

impl Recording {
    /// The shape of one sample of a tensor whose first axis is the batch, or the batch with another
    /// axis behind it as one.
    pub(super) fn of_sample(&self, shape: &[usize]) -> Vec<usize> {
        match shape[0] / self.batch {
            1 => shape[1..].to_vec(),
            more => [&[more], &shape[1..]].concat(),
        }
    }

    /// Whether the first axis is the batch with another axis behind it.
    pub(super) fn joins_batch(&self, shape: &[usize]) -> bool {
        shape[0] != self.batch
    }

    /// Whether an operation reshapes a parameter or what it is multiplied by, as the two forms of a
    /// linear layer begin.
    fn reshapes(&self, index: usize) -> Option<bool> {
        match self.operations.get(index)? {
            OperationIr::BaseFloat(BaseOperationIr::Reshape(reshape)) => {
                Some(self.names.contains_key(&reshape.input.id))
            }
            _ => None,
        }
    }
}

/// Records a module for batches of one size, then of another, and compares.
pub(super) fn record<M: Module, I: Tensors, O: Tensors>(
    module: &M,
    shapes: &[Vec<usize>],
    forward: impl Fn(&M, I) -> O,
) -> Result<Recording, CaptureError> {
    let mut first = None;
    for sizes in SIZES {
        let [recording, other] = sizes.map(|size| record_batch(module, size, shapes, &forward));
        let (mut recording, other) = (recording?, other?);
        match compare(&recording, &other) {
            Ok(of_batch) => {
                recording.of_batch = of_batch;
                return Ok(recording);
            }
            Err(error) => {
                let both = match &error {
                    CaptureError::Batch { place, .. } => {
                        [recording.reshapes(place.index), other.reshapes(place.index)]
                    }
                    _ => [None; 2],
                };
                let is_linear = both.contains(&Some(true)) && both.iter().all(Option::is_some);
                let error = first.get_or_insert(error);
                if !is_linear {
                    return Err(error.clone());
                }
            }
        }
    }
    Err(first.expect("some pair was compared"))
}

fn record_batch<M: Module, I: Tensors, O: Tensors>(
    module: &M,
    size: usize,
    shapes: &[Vec<usize>],
    forward: impl Fn(&M, I) -> O,
) -> Result<Recording, CaptureError> {
    let device = Device::capture();
    let mut names = Names::default();
    let failed =
        |error: &dyn std::fmt::Debug| CaptureError::Recording { message: format!("{error:?}") };
    let mut refused = None;
    let captured = device.capture_scope(|scope| {
        // `valid` gives running statistics of its own: `to_device` moves shared ones in place.
        let module = module.valid().to_device(&device);
        module.visit(&mut names);
        let zeros = shapes.iter().map(|shape| {
            let shape: Vec<usize> = std::iter::once(size).chain(shape.iter().copied()).collect();
            TensorData::zeros::<f32, _>(shape)
        });
        let x = I::from_data(&mut zeros.into_iter(), &device);
        let y = forward(&module, x.clone());
        match (x.ids(), y.ids()) {
            (Ok(inputs), Ok(outputs)) => scope.complete(inputs, outputs),
            (Err(error), _) | (_, Err(error)) => {
                refused = Some(CaptureError::Recording { message: error });
                scope.complete([], [])
            }
        }
    });
    if let Some(error) = refused {
        return Err(error);
    }
    let captured = captured.map_err(|error| failed(&error))?;
    let (inputs, outputs) = (captured.graph.inputs.to_vec(), captured.graph.outputs.to_vec());
    let recorded =
        |operation: &OperationIr| !matches!(operation, OperationIr::Init(_) | OperationIr::Drop(_));
    let mut operations = captured.graph.operations;
    operations.retain(recorded);
    let (values, names, of_batch) = (captured.values, names.of, HashSet::new());
    Ok(Recording { operations, batch: size, values, inputs, outputs, names, of_batch })
}

/// The paths of parameters and running statistics, by their tensors.
#[derive(Debug, Default)]
struct Names {
    isa: Vec<String>,
    of: HashMap<TensorId, String>,
}

impl ModuleVisitor for Names {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Ok(tensor) = param.val().try_into_primitive::<Capture>() {
            self.of.insert(tensor.id(), self.isa.join("."));
        }
    }

    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.isa.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.isa.pop();
    }
}

/// The tensors that depend on the batch, if two runs are equal except for the first axis of these.
fn compare(first: &Recording, second: &Recording) -> Result<HashSet<TensorId>, CaptureError> {
    let mut of_batch = HashSet::new();
    let sizes = [first.batch, second.batch];
    let mut after = String::new();
    let mut numbers = [HashMap::new(), HashMap::new()];
    let count = first.operations.len().max(second.operations.len());
    for index in 0..count {
        let pair = [&first.operations, &second.operations].map(|all| all.get(index));
        let named = pair[0].or(pair[1]).expect("one of them is as long");
        let differs = || CaptureError::Batch {
            place: Place { operation: kind(named), index, after: after.clone() },
            sizes,
        };
        let [Some(a), Some(b)] = pair else { return Err(differs()) };
        let (mut a, mut b) = (a.clone(), b.clone());
        [&mut a, &mut b].into_iter().zip(sizes).for_each(|(a, size)| forget_batch(a, size));
        let [of_first, of_second] = &mut numbers;
        let tensors = [(&mut a, of_first), (&mut b, of_second)].map(|(operation, numbers)| {
            let mut tensors = Renumbered { numbers, shapes: Vec::new(), ids: Vec::new() };
            operation.visit_mut(&mut tensors);
            tensors
        });
        let ids = &tensors[0].ids;
        let tensors = [&tensors[0].shapes, &tensors[1].shapes];
        let are_alike = tensors[0].len() == tensors[1].len()
            && tensors[0]
                .iter()
                .zip(tensors[1])
                .all(|(a, b)| is_same_but_for_the_batch(a, b, sizes));
        if !are_alike || a != b {
            return Err(differs());
        }
        let shapes = tensors[0].iter().zip(tensors[1]);
        of_batch.extend(ids.iter().zip(shapes).filter(|(_, (a, b))| a != b).map(|(id, _)| *id));
        if let Some(name) = layer_of(first, &first.operations[index]) {
            after = name;
        }
    }
    Ok(of_batch)
}

fn is_same_but_for_the_batch(a: &[usize], b: &[usize], sizes: [usize; 2]) -> bool {
    match (a, b) {
        ([of_a, a @ ..], [of_b, b @ ..]) => {
            let both = [*of_a, *of_b];
            let each = [both[0] / sizes[0], both[1] / sizes[1]];
            let is_batch = each[0] == each[1] && both == sizes.map(|size| size * each[0]);
            a == b && (both[0] == both[1] || is_batch)
        }
        _ => a == b,
    }
}

/// Removes the size of the batch from the numbers of an operation: a slice of the whole batch, and
/// a tensor that is repeated for each sample.
pub(super) fn forget_batch(operation: &mut OperationIr, size: usize) {
    let (OperationIr::BaseFloat(operation)
    | OperationIr::BaseInt(operation)
    | OperationIr::BaseBool(operation)) = operation
    else {
        return;
    };
    let (tensor, ranges) = match operation {
        BaseOperationIr::Slice(slice) => (&slice.tensor, &mut slice.ranges),
        BaseOperationIr::SliceAssign(slice) => (&slice.tensor, &mut slice.ranges),
        BaseOperationIr::RepeatDim(repeat) => {
            if repeat.dim == 0 && repeat.tensor.shape[0] == 1 && repeat.times == size {
                repeat.times = 0;
            }
            return;
        }
        _ => return,
    };
    if let Some(range) = ranges.first_mut()
        && tensor.shape[0] == size
        && range.step == 1
        && range.to_range(size) == (0..size)
    {
        *range = Slice::full();
    }
}

/// Renumbers tensors in the order of their first use, and removes their shapes.
struct Renumbered<'a> {
    numbers: &'a mut HashMap<TensorId, u64>,
    shapes: Vec<Vec<usize>>,
    /// As recorded.
    ids: Vec<TensorId>,
}

impl IrVisitorMut for Renumbered<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        let next = self.numbers.len() as u64;
        self.ids.push(tensor.id);
        tensor.id = TensorId::new(*self.numbers.entry(tensor.id).or_insert(next));
        self.shapes.push(tensor.shape.to_vec());
        tensor.shape = [0; 0].into();
    }
}

/// The layer whose parameter an operation reads.
pub(super) fn layer_of(recording: &Recording, operation: &OperationIr) -> Option<String> {
    let isa = operation.inputs().find_map(|tensor| recording.names.get(&tensor.id))?;
    Some(isa.rsplit_once('.').map_or(isa.as_str(), |(layer, _)| layer).to_owned())
}

/// An operation's name in burn, such as `Conv2d`.
pub(super) fn kind(operation: &OperationIr) -> String {
    let text = format!("{operation:?}");
    let name = |text: &str| -> String {
        text.chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect()
    };
    let mut parts = text.splitn(2, '(');
    let outer = parts.next().unwrap_or_default();
    let rest = parts.next().unwrap_or_default();
    // `NumericFloat(F32, Add(…` has a dtype first.
    let inner = match outer {
        "NumericFloat" | "NumericInt" | "Float" => {
            rest.split_once(", ").map_or(rest, |(_, inner)| inner)
        }
        _ => rest,
    };
    match outer {
        "Custom" | "Init" | "Drop" => outer.to_owned(),
        _ => name(inner),
    }
}
