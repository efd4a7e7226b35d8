//! Gradients of a model as one list of numbers, in module order.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, FloatDType, Tensor, TensorData, Transaction};

/// Which parameters have a gradient, in module order.
pub(crate) fn has_gradient<M: Module>(gradients: &GradientsParams, model: &M) -> Vec<bool> {
    let mut has = HasGradient { gradients, has: Vec::new() };
    model.visit(&mut has);
    has.has
}

/// The gradients, zeros for those that are missing here.
pub(super) fn pack<M: Module>(
    gradients: GradientsParams,
    expected: &[bool],
    model: &M,
) -> Vec<f32> {
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
    numbers
}

/// The reverse of [`pack`].
pub(super) fn unpack<M: Module>(
    mut numbers: &[f32],
    expected: &[bool],
    model: &M,
) -> GradientsParams {
    let mut unpack = Unpack {
        numbers: &mut numbers,
        expected: expected.iter(),
        gradients: GradientsParams::new(),
    };
    model.visit(&mut unpack);
    unpack.gradients
}

/// Multiplies all numbers by a factor.
pub(super) fn scale(numbers: &mut [f32], factor: f64) {
    numbers.iter_mut().for_each(|number| *number *= factor as f32);
}

/// The numbers of a [`flat`] tensor.
pub(super) fn floats(data: TensorData) -> Vec<f32> {
    data.try_into_vec().expect("it was cast to f32")
}

pub(super) fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
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
pub(super) fn taken<const D: usize>(numbers: &mut &[f32], like: &Tensor<D>) -> Tensor<D> {
    let shape = like.shape();
    let (own, rest) = numbers.split_at(shape.num_elements());
    *numbers = rest;
    let data = TensorData::new(own.to_vec(), shape);
    let tensor: Tensor<D> = Tensor::from_data(data, (&like.device(), DType::F32));
    tensor.cast(like.dtype())
}
