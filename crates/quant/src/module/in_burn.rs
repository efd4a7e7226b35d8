//! Operations that a graph does not have, left to burn in f32.

use std::collections::BTreeSet;

use burn::backend::ir::{BaseOperationIr, IrVisitorMut, OperationIr, TensorId, TensorIr};
use burn::tensor::{DType, TensorData};

use super::constant::Constant;
use super::error::CaptureError;
use super::reader::{Meaning, Read, Reader};
use super::record::{Recording, forget_batch, kind};
use crate::operation::{InBurn, data, is_pure};
use crate::view::View;

impl Reader<'_> {
    /// Leaves an operation to burn, with those before it whose results are no numbers of f32.
    ///
    /// `Ok(false)` if that is not possible: it is random, or the user's own.
    pub(super) fn leave_to_burn(&mut self, index: usize, layer: Option<&str>) -> Read<bool> {
        let recording = self.recording;
        let operation = &recording.operations[index];
        if !is_pure(operation) {
            return Ok(false);
        }
        for out in operation.outputs() {
            match out.dtype {
                DType::F32 => {
                    let meaning = self.computed(index, out, layer)?;
                    self.meanings.insert(out.id, meaning);
                }
                dtype if dtype.is_float() => {
                    return Err(CaptureError::DType { place: self.place.clone(), dtype });
                }
                _ => {
                    self.in_burn.insert(out.id, index);
                }
            }
        }
        Ok(true)
    }

    /// The output of a recorded operation as a layer, or as a constant if it reads no input.
    fn computed(&mut self, index: usize, out: &TensorIr, layer: Option<&str>) -> Read<Meaning> {
        let recording = self.recording;
        let operations: Vec<_> =
            self.needed(index).into_iter().map(|at| recording.operations[at].clone()).collect();
        let mut parts = Parts::default();
        for tensor in read_by(&operations) {
            match self.meaning_in_burn(&tensor)? {
                Meaning::Constant(constant) => parts.constants.push((tensor, constant)),
                Meaning::Value { .. } => {
                    let (value, _) = self.value_in_order(&tensor)?;
                    parts.inputs.push(tensor);
                    parts.values.push(value);
                }
            }
        }
        if parts.inputs.is_empty() {
            let whole = InBurn {
                operations,
                inputs: vec![],
                constants: parts.constants.iter().map(|(tensor, _)| tensor.clone()).collect(),
                output: out.clone(),
            };
            let given = parts.constants.iter().map(|(t, c)| (t.id, data(t, &c.values)));
            let result = whole.try_compute(given.collect());
            let constant = result.as_ref().and_then(Constant::try_from_data);
            return constant.map(Meaning::Constant).ok_or_else(|| self.unsupported(CANNOT));
        }
        let alone = self.alone(operations, out, parts)?;
        let Alone { operation, constants, values } = alone;
        let name = match layer {
            Some(layer) => layer.to_owned(),
            None => self.numbered(&kind(&recording.operations[index])),
        };
        let y = self.graph.in_burn(&name, operation, &constants, &values);
        let y = self.added(y)?;
        let view = View::of(self.graph.shape(y)).reshaped(&recording.of_sample(&out.shape));
        Ok(Meaning::of(y, view.expect("the same numbers")))
    }

    /// The same operations for one sample, which have to return the same for each sample of a batch.
    fn alone(&self, operations: Vec<OperationIr>, out: &TensorIr, parts: Parts) -> Read<Alone> {
        let recording = self.recording;
        if !recording.of_batch.contains(&out.id) {
            return Err(self.unsupported("it joins the samples of the batch"));
        }
        let Parts { inputs, constants, values } = parts;
        let whole = InBurn {
            operations,
            inputs,
            constants: constants.iter().map(|(tensor, _)| tensor.clone()).collect(),
            output: out.clone(),
        };
        let mut numbers = Vec::new();
        for (tensor, constant) in &constants {
            let of_batch = recording.of_batch.contains(&tensor.id);
            let len = constant.values.len() / if of_batch { recording.batch } else { 1 };
            let of_sample = &constant.values[..len];
            if constant.values.chunks_exact(len.max(1)).any(|other| other != of_sample) {
                return Err(self.unsupported("it reads a constant that differs between samples"));
            }
            numbers.push(of_sample.to_vec());
        }
        let operation = whole.for_one(recording);
        let samples: Vec<Vec<f32>> = operation
            .inputs
            .iter()
            .map(|tensor| scattered(recording.batch * numbers_of(tensor)))
            .collect();
        let given = whole.inputs.iter().zip(&samples).map(|(t, x)| (t.id, data(t, x)));
        let all = constants.iter().map(|(t, constant)| (t.id, data(t, &constant.values)));
        let cannot = || self.unsupported(CANNOT);
        let together = whole.try_compute(given.chain(all).collect()).ok_or_else(cannot)?;
        let together = reals(together).ok_or_else(cannot)?;
        for (sample, expected) in
            together.chunks_exact(together.len() / recording.batch).enumerate()
        {
            let given = operation.inputs.iter().zip(&samples).map(|(tensor, x)| {
                let count = numbers_of(tensor);
                (tensor.id, data(tensor, &x[sample * count..][..count]))
            });
            let all = operation.constants.iter().zip(&numbers).map(|(t, x)| (t.id, data(t, x)));
            let one = operation.try_compute(given.chain(all).collect()).ok_or_else(cannot)?;
            if !is_close(&reals(one).ok_or_else(cannot)?, expected) {
                return Err(self.unsupported("a sample depends on the others of the batch"));
            }
        }
        // Infinity marks what is left out; the greatest numbers do so too, and are in files.
        let finite =
            |number: f32| if number.is_nan() { number } else { number.clamp(f32::MIN, f32::MAX) };
        let constants = numbers.concat().into_iter().map(finite).collect();
        Ok(Alone { operation, constants, values })
    }

    /// The operations that an operation needs: itself, and all that compute tensors which no value
    /// of the graph has.
    fn needed(&self, index: usize) -> BTreeSet<usize> {
        let (mut needed, mut open) = (BTreeSet::new(), vec![index]);
        while let Some(index) = open.pop() {
            if needed.insert(index) {
                let inputs = self.recording.operations[index].inputs();
                open.extend(inputs.filter_map(|tensor| self.in_burn.get(&tensor.id)));
            }
        }
        needed
    }

    /// The meaning of a tensor of any type.
    fn meaning_in_burn(&self, tensor: &TensorIr) -> Read<Meaning> {
        if let Some(meaning) = self.meanings.get(&tensor.id) {
            return Ok(meaning.clone());
        }
        let data = self.recording.values.get(&tensor.id);
        let constant = data.and_then(Constant::try_from_data);
        let constant = constant.ok_or_else(|| self.unsupported("it reads a tensor of nowhere"))?;
        // Integers beyond these are not exact in f32.
        let is_exact = |number: &f32| number.abs() <= 16_777_216.0;
        match tensor.dtype.is_float() || constant.values.iter().all(is_exact) {
            true => Ok(Meaning::Constant(constant)),
            false => Err(self.unsupported("it reads integers beyond 2^24")),
        }
    }
}

const CANNOT: &str = "burn cannot compute it alone";

/// What recorded operations read.
#[derive(Debug, Default)]
struct Parts {
    inputs: Vec<TensorIr>,
    values: Vec<crate::network::Value>,
    constants: Vec<(TensorIr, Constant)>,
}

/// Recorded operations of one sample, with what they read.
#[derive(Debug)]
struct Alone {
    operation: InBurn,
    constants: Vec<f32>,
    values: Vec<crate::network::Value>,
}

impl InBurn {
    /// The same for a batch of one sample.
    fn for_one(&self, recording: &Recording) -> Self {
        let mut one = self.clone();
        let mut visitor = OneSample(recording);
        for operation in &mut one.operations {
            forget_batch(operation, recording.batch);
            if let OperationIr::BaseFloat(BaseOperationIr::RepeatDim(repeat))
            | OperationIr::BaseInt(BaseOperationIr::RepeatDim(repeat))
            | OperationIr::BaseBool(BaseOperationIr::RepeatDim(repeat)) = operation
            {
                repeat.times = repeat.times.max(1);
            }
            operation.visit_mut(&mut visitor);
        }
        let given = one.inputs.iter_mut().chain(&mut one.constants);
        given.chain([&mut one.output]).for_each(|tensor| visitor.visit_tensor_mut(tensor));
        one
    }
}

/// Removes the other samples from the shapes of tensors.
struct OneSample<'a>(&'a Recording);

impl IrVisitorMut for OneSample<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if self.0.of_batch.contains(&tensor.id) {
            tensor.shape[0] /= self.0.batch;
        }
    }
}

/// The tensors that operations read and do not compute, each once.
fn read_by(operations: &[OperationIr]) -> Vec<TensorIr> {
    let computed: BTreeSet<TensorId> =
        operations.iter().flat_map(|operation| operation.outputs().map(|out| out.id)).collect();
    let mut read: Vec<TensorIr> = Vec::new();
    for tensor in operations.iter().flat_map(|operation| operation.inputs()) {
        let is_new = read.iter().all(|other| other.id != tensor.id);
        if is_new && !computed.contains(&tensor.id) {
            read.push(tensor.clone());
        }
    }
    read
}

fn numbers_of(tensor: &TensorIr) -> usize {
    tensor.shape.num_elements()
}

fn reals(data: TensorData) -> Option<Vec<f32>> {
    data.try_into_vec().ok()
}

/// Numbers from 0 to 1 without order, which are 0 as integers: a valid index.
fn scattered(count: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0
    };
    (0..count).map(|_| next()).collect()
}

/// Whether numbers differ by no more than the order of sums explains.
fn is_close(a: &[f32], b: &[f32]) -> bool {
    let most = b.iter().filter(|b| b.is_finite()).fold(0.0_f32, |most, b| most.max(b.abs()));
    let same =
        |(&a, &b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-4 * most;
    a.len() == b.len() && a.iter().zip(b).all(same)
}
