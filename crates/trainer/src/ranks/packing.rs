//! Gradients and running statistics of a model as one list of numbers, in module order.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, FloatDType, Tensor, TensorData, Transaction};

use crate::paths::{PathVisitor, visit_paths};

/// The running statistics of a model, which forward passes in training move.
#[derive(Debug)]
pub(crate) struct Statistics(HashMap<ParamId, Vec<f32>>);

/// How many numbers a list has of each kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    pub(super) gradients: usize,
}

impl Statistics {
    /// Those of a model, read from its device.
    pub(crate) fn of<M: Module>(model: &M) -> Self {
        // burn applies pending statistics at the next forward pass or in `valid`.
        drop(model.valid());
        let mut find = FindStatistics::default();
        visit_paths(model, &mut find);
        let read = find.reads.execute().into_iter().map(floats);
        Self(find.ids.into_iter().zip(read).collect())
    }
}

/// Which parameters have a gradient, in module order.
pub(crate) fn has_gradient<M: Module>(gradients: &GradientsParams, model: &M) -> Vec<bool> {
    let mut has = HasGradient { gradients, has: Vec::new() };
    model.visit(&mut has);
    has.has
}

/// The gradients, zeros for those that are missing here, then the changes of the statistics.
pub(super) fn pack<M: Module>(
    gradients: GradientsParams,
    expected: &[bool],
    before: &Statistics,
    model: &M,
) -> (Vec<f32>, Lengths) {
    let mut pack = Pack {
        gradients,
        expected: expected.iter(),
        reads: Transaction::default(),
        parts: Vec::new(),
    };
    model.visit(&mut pack);
    let mut read = pack.reads.execute().into_iter().map(floats);
    let mut numbers = Vec::new();
    for part in pack.parts {
        match part {
            Part::Read => numbers.extend(read.next().expect("one reading for each gradient")),
            Part::Zeros(count) => numbers.resize(numbers.len() + count, 0.0),
        }
    }
    let gradients = numbers.len();
    let after = Statistics::of(model);
    let mut ids = FindStatistics::default();
    visit_paths(model, &mut ids);
    for id in &ids.ids {
        let changes = after.0[id].iter().zip(&before.0[id]).map(|(after, before)| after - before);
        numbers.extend(changes);
    }
    (numbers, Lengths { gradients })
}

/// The reverse of [`pack`].
pub(super) fn unpack<M: Module>(
    numbers: &[f32],
    lengths: Lengths,
    expected: &[bool],
    before: &Statistics,
    model: M,
) -> (GradientsParams, M) {
    let (mut of_gradients, mut changes) = numbers.split_at(lengths.gradients);
    let mut unpack = Unpack {
        numbers: &mut of_gradients,
        expected: expected.iter(),
        gradients: GradientsParams::new(),
    };
    model.visit(&mut unpack);
    let gradients = unpack.gradients;
    if changes.is_empty() {
        return (gradients, model);
    }
    // A pending update would overwrite the values.
    drop(model.valid());
    let mut put = PutStatistics { path: Vec::new(), before, changes: &mut changes };
    (gradients, model.map(&mut put))
}

fn floats(data: TensorData) -> Vec<f32> {
    data.iter().collect()
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let count = tensor.shape().num_elements();
    tensor.cast(FloatDType::F32).reshape([count])
}

struct HasGradient<'a> {
    gradients: &'a GradientsParams,
    has: Vec<bool>,
}

impl ModuleVisitor for HasGradient<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.has.push(self.gradients.get::<D>(param.id).is_some());
    }
}

enum Part {
    /// A gradient of this rank, in the order of the readings.
    Read,
    /// One that only other ranks have.
    Zeros(usize),
}

struct Pack<'a> {
    gradients: GradientsParams,
    expected: std::slice::Iter<'a, bool>,
    reads: Transaction,
    parts: Vec<Part>,
}

impl ModuleVisitor for Pack<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.expected.next() != Some(&true) {
            return;
        }
        self.parts.push(match self.gradients.remove::<D>(param.id) {
            Some(gradient) => {
                let reads = std::mem::take(&mut self.reads);
                self.reads = reads.register(flat(gradient));
                Part::Read
            }
            None => Part::Zeros(param.lazy_shape().num_elements()),
        });
    }
}

struct Unpack<'a, 'n> {
    numbers: &'a mut &'n [f32],
    expected: std::slice::Iter<'a, bool>,
    gradients: GradientsParams,
}

impl ModuleVisitor for Unpack<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.expected.next() != Some(&true) {
            return;
        }
        let like = param.base().without_autodiff();
        self.gradients.register(param.id, taken(self.numbers, &like));
    }
}

/// The next numbers, in the shape and the dtype of a tensor and on its device.
fn taken<const D: usize>(numbers: &mut &[f32], like: &Tensor<D>) -> Tensor<D> {
    let shape = like.shape();
    let (own, rest) = numbers.split_at(shape.num_elements());
    *numbers = rest;
    let data = TensorData::new(own.to_vec(), shape);
    let tensor: Tensor<D> = Tensor::from_data(data, (&like.device(), DType::F32));
    tensor.cast(like.dtype())
}

#[derive(Default)]
struct FindStatistics {
    ids: Vec<ParamId>,
    reads: Transaction,
}

/// Whether a tensor at the end of a path is a running statistic.
fn is_statistic<const D: usize>(path: &[String], tensor: &Tensor<D>) -> bool {
    !tensor.is_require_grad() && path.last().is_some_and(|name| name.starts_with("running_"))
}

impl PathVisitor for FindStatistics {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        let tensor = param.base();
        if is_statistic(path, &tensor) {
            self.ids.push(param.id);
            let reads = std::mem::take(&mut self.reads);
            self.reads = reads.register(flat(tensor.without_autodiff()));
        }
    }
}

struct PutStatistics<'a, 'n> {
    path: Vec<String>,
    before: &'a Statistics,
    changes: &'a mut &'n [f32],
}

impl ModuleMapper for PutStatistics<'_, '_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !is_statistic(&self.path, &param.base()) {
            return param;
        }
        let before = &self.before.0[&param.id];
        let (changes, rest) = self.changes.split_at(before.len());
        *self.changes = rest;
        let values: Vec<f32> =
            before.iter().zip(changes).map(|(old, change)| old + change).collect();
        let (id, old, mapper) = param.consume();
        Param::from_mapped_value(id, taken(&mut &values[..], &old), mapper)
    }
}
