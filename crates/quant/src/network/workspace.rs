//! The buffers that a model runs in.

use updraft_simd::{Aligned, Isa};

use super::float::compute;
use super::model::QuantizedModel;
use crate::kernels::{Scratch, means};
use crate::operation::{FloatJob, FloatSpace};

/// The work space of a model; one for each thread that calls it. Grows at the first call of a size.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// The codes of tensors.
    pub(super) buffers: Vec<Aligned<u8>>,
    pub(super) scratch: Scratch,
    pub(super) float: FloatTensors,
    /// The work spaces of the other threads.
    pub(super) others: Vec<Self>,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffers: Vec::new(),
            scratch: Scratch::new(),
            float: FloatTensors::new(),
            others: Vec::new(),
        }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(Aligned::bytes).sum();
        let others: usize = self.others.iter().map(Self::bytes).sum();
        buffers + self.scratch.bytes() + self.float.bytes() + others
    }
}

/// The work space of layers in f32: tensors `[n, channels, …]` in buffers with the numbers of those
/// of the codes.
#[derive(Debug, Clone, Default)]
pub(super) struct FloatTensors {
    buffers: Vec<Vec<f32>>,
    sums: Vec<i32>,
    space: FloatSpace,
}

impl FloatTensors {
    const fn new() -> Self {
        Self { buffers: Vec::new(), sums: Vec::new(), space: FloatSpace::new() }
    }

    fn bytes(&self) -> usize {
        let buffers: usize =
            self.buffers.iter().map(|buffer| size_of::<f32>() * buffer.capacity()).sum();
        buffers + size_of::<i32>() * self.sums.capacity() + self.space.bytes()
    }

    /// The first numbers of a buffer.
    pub(super) fn buffer(&self, buffer: usize, len: usize) -> &[f32] {
        &self.buffers[buffer][..len]
    }

    /// Stores an input that no layer reads as codes.
    pub(super) fn set(&mut self, buffer: usize, numbers: &[f32]) {
        self.buffers.resize_with((buffer + 1).max(self.buffers.len()), Vec::new);
        let to = &mut self.buffers[buffer];
        *to = grown(std::mem::take(to), numbers.len());
        to[..numbers.len()].copy_from_slice(numbers);
    }

    /// Computes a tensor in f32 from f32 tensors, or from codes that `codes_of` returns; inputs of
    /// real numbers are f32 tensors if no layer reads them as codes.
    #[expect(clippy::too_many_arguments, reason = "what a run is made of")]
    pub(super) fn run<'a>(
        &mut self,
        isa: Isa,
        model: &QuantizedModel,
        tensor: usize,
        samples: usize,
        codes_of: impl Fn(usize) -> &'a [u8],
        has_real_inputs: bool,
        threads: usize,
    ) {
        let layer = model.layer_of(tensor).expect("a layer gives it");
        self.buffers.resize_with(model.shapes.len().max(self.buffers.len()), Vec::new);
        let is_here = |tensor: usize| match model.layer_of(tensor) {
            Some(layer) => layer.is_float(),
            None => has_real_inputs && !model.is_coded(tensor),
        };
        let len = |tensor: usize| samples * model.len(tensor);
        let mut of_y = grown(std::mem::take(&mut self.buffers[model.buffer(tensor)]), len(tensor));
        let y = &mut of_y[..len(tensor)];
        let first = layer.inputs[0];
        if !is_here(first) && layer.operation.is_mean_of_image(&layer.shapes) {
            self.mean(isa, model, tensor, codes_of(first), y);
            self.buffers[model.buffer(tensor)] = of_y;
            return;
        }
        for &input in layer.inputs.iter().filter(|&&input| !is_here(input)) {
            let buffer = &mut self.buffers[model.buffer(input)];
            *buffer = grown(std::mem::take(buffer), len(input));
            model.real(isa, input, codes_of(input), &mut buffer[..len(input)]);
        }
        let x = layer.inputs.iter().map(|&input| &self.buffers[model.buffer(input)][..len(input)]);
        let x: Vec<&[f32]> = x.collect();
        if let Some(kernel) = layer.form.float_kernel(layer.operation.as_ref(), &layer.shapes) {
            kernel.run(&x, layer.clip, y, &mut self.space.scratch, threads);
        } else {
            let parameters = layer.form.float_parameters();
            for (sample, y) in y.chunks_exact_mut(model.len(tensor)).enumerate() {
                let x = x.iter().map(|&x| &x[sample * (x.len() / samples)..][..x.len() / samples]);
                let x: Vec<&[f32]> = x.collect();
                let (shapes, space) = (&layer.shapes, &mut self.space);
                let job = FloatJob { parameters, shapes, x: &x, y, space };
                compute(layer.operation.as_ref(), layer.clip, job);
            }
        }
        self.buffers[model.buffer(tensor)] = of_y;
    }

    /// The mean of images from their codes, with exact sums.
    fn mean(
        &mut self,
        isa: Isa,
        model: &QuantizedModel,
        tensor: usize,
        codes: &[u8],
        y: &mut [f32],
    ) {
        let layer = model.layer_of(tensor).expect("a layer gives it");
        let (input, channels) = (layer.inputs[0], model.len(tensor));
        self.sums.resize(channels, 0);
        for (codes, y) in codes.chunks_exact(model.len(input)).zip(y.chunks_exact_mut(channels)) {
            means(isa, model.schemes[input], codes, &mut self.sums, y);
        }
        layer.clip.apply(y);
    }
}

/// A buffer with space for some numbers.
fn grown(mut buffer: Vec<f32>, len: usize) -> Vec<f32> {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    buffer
}
