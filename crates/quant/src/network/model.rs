//! A graph in eight bits: calibrated, packed, and run.

use updraft_simd::{Isa, Uneven, over};

use super::calibration::{choose_schemes, observe};
use super::float::FloatSpace;
use super::fuse::steps;
use super::graph::Graph;
use super::layer::{Kernel, PackError, QuantizedLayer, Source, Tensors};
use super::quantization::{Calibrated, Quantization};
use super::slots::assign_slots;
use crate::kernels::{Addend, Scratch, dequantize, quantize_images};
use crate::observe::ObserveError;
use crate::scheme::ActivationScheme;
use crate::weights::WeightError;

/// Bytes that the tensors of the images that run together may take, so that they stay in the
/// second cache.
const TOGETHER: usize = 256 << 10;

/// Multiply-adds of a layer that are worth a further thread: about as long as it takes to wake one.
const WORTH_A_THREAD: usize = 1 << 20;

/// Why a graph cannot be quantized.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizeError {
    /// The graph has no layer.
    #[error("the graph has no layer; add one before it is quantized")]
    NoLayer,
    /// No image was seen.
    #[error("the calibration set has no image; a few hundred are enough")]
    NoImage,
    /// A batch holds no whole number of images.
    #[error("calibration batch {batch} has {got} numbers, no multiple of the {image} of an image")]
    BatchLength {
        /// The batch, counted from 0.
        batch: usize,
        /// Numbers of an image.
        image: usize,
        /// Numbers of the batch.
        got: usize,
    },
    /// What a layer gave in f32 has no scheme.
    #[error("what layer `{layer}` gives cannot be calibrated")]
    Observed {
        /// The layer, or `input`.
        layer: String,
        /// Why.
        #[source]
        source: ObserveError,
    },
    /// A layer is to be kept in f32 that is not there.
    #[error("no layer is named `{layer}`, so that it cannot be kept in f32; there are {there}")]
    NoSuchLayer {
        /// What was asked for.
        layer: String,
        /// The names that there are.
        there: String,
    },
    /// A layer's weights have no eight bits.
    #[error("the weights of layer `{layer}` cannot be quantized")]
    Weights {
        /// The layer.
        layer: String,
        /// Why.
        #[source]
        source: WeightError,
    },
}

/// A network that computes in eight bits, from f32 to f32.
///
/// Activations have one scheme a tensor, weights one scale an output channel. The last layer gives
/// its sums in f32 directly if it is a fully connected one.
#[derive(Debug, Clone)]
pub struct QuantizedModel {
    pub(super) layers: Vec<QuantizedLayer>,
    /// Channels, height and width of each tensor; tensor `i + 1` is what layer `i` gives.
    pub(super) shapes: Vec<[usize; 3]>,
    pub(super) schemes: Vec<ActivationScheme>,
    /// The buffer of each tensor.
    pub(super) slots: Vec<usize>,
    /// Bytes of each buffer for one image.
    pub(super) slot_lens: Vec<usize>,
    /// Whether convolutions add what their sums are added to.
    pub(super) joins_sums: bool,
    pub(super) calibrated: Calibrated,
}

/// What a model works in; one for each thread that calls it. Grows at the first call of a size.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    slots: Vec<Vec<u8>>,
    scratch: Scratch,
    float: FloatSpace,
    /// Those of the threads beside the first.
    others: Vec<Workspace>,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            scratch: Scratch::new(),
            float: FloatSpace::new(),
            others: Vec::new(),
        }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let slots: usize = self.slots.iter().map(Vec::capacity).sum();
        let others: usize = self.others.iter().map(Self::bytes).sum();
        slots + self.scratch.bytes() + self.float.bytes() + others
    }
}

impl QuantizedModel {
    /// Runs the graph in f32 over batches of images `[n, channels, height, width]`, watches every
    /// tensor, and packs the layers. [`plan`](Self::plan) says which of them stay in f32.
    ///
    /// Memory does not depend on the number of images. What a layer gives that is zero for every
    /// one of them (rectifiers may die) takes the scheme of what the layer reads, where zero has an
    /// exact code; the plan says so.
    ///
    /// # Errors
    /// [`QuantizeError`] for a graph without layers, a layer to keep that is not there, data that
    /// is missing, cut, not finite or nothing but zero.
    pub fn try_quantize<B: AsRef<[f32]>>(
        graph: &Graph,
        batches: impl IntoIterator<Item = B>,
        by: impl Into<Quantization>,
    ) -> Result<Self, QuantizeError> {
        let by = by.into();
        let joins_sums = by.joins_sums();
        let steps = steps(graph, joins_sums);
        if steps.is_empty() {
            return Err(QuantizeError::NoLayer);
        }
        let input = graph.shape(graph.input());
        let kept = by.kept(input, &steps)?;
        let observers = observe(input, &steps, batches, &by)?;
        let (schemes, is_zero) = choose_schemes(&steps, &kept, &observers)?;
        let mut shapes = vec![input];
        shapes.extend(steps.iter().map(|step| step.shape));
        let tensors = Tensors { schemes: &schemes, shapes: &shapes };
        let layers = steps.iter().enumerate().map(|(index, step)| {
            let layer = step.name.clone();
            let packed = QuantizedLayer::try_new(step, index + 1, kept[index], tensors);
            let packed = packed.map_err(|error| match error {
                PackError::Weights(source) => QuantizeError::Weights { layer, source },
                PackError::Factor(source) => {
                    QuantizeError::Observed { layer, source: source.into() }
                }
            })?;
            Ok(QuantizedLayer { is_zero: is_zero[index], ..packed })
        });
        let layers = layers.collect::<Result<Vec<_>, QuantizeError>>()?;
        let (slots, slot_lens) = assign_slots(&layers, &shapes);
        let images = observers[0].count() / input.iter().product::<usize>() as u64;
        let calibrated = by.calibrated(images);
        Ok(Self { layers, shapes, schemes, slots, slot_lens, joins_sums, calibrated })
    }

    /// What the model was calibrated on, and how.
    #[must_use]
    pub const fn calibrated(&self) -> &Calibrated {
        &self.calibrated
    }

    /// Channels, height and width of an image, and of its answer.
    #[must_use]
    pub fn shapes(&self) -> [[usize; 3]; 2] {
        [self.shapes[0], self.shapes[self.shapes.len() - 1]]
    }

    /// Bytes of all packed weights.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.layers.iter().map(QuantizedLayer::weight_bytes).sum()
    }

    /// Computes the answers `[n, channels, height, width]` of images `[n, channels, height, width]`.
    ///
    /// The same bytes for any number of threads and on every path. Threads share the images, or
    /// where there are fewer, the layers that are large enough. NaN in an image counts as its
    /// least number.
    ///
    /// # Panics
    /// If a slice holds no whole number of images or the two differ, or the CPU does not have `isa`.
    pub fn run(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        workspace: &mut Workspace,
        threads: usize,
    ) {
        let [image_len, answer_len] = self.shapes().map(|shape| shape.iter().product::<usize>());
        let images = x.len() / image_len;
        assert_eq!(x.len(), images * image_len, "whole images");
        assert_eq!(y.len(), images * answer_len, "numbers of the answers");
        let threads = updraft_simd::threads(threads);
        if threads == 1 || images < threads {
            self.run_in_parts(isa, x, y, workspace, threads);
            return;
        }
        // Images are independent: each thread takes some through all layers, also those whose
        // kernels know no threads, and waits for none.
        if workspace.others.len() < threads - 1 {
            workspace.others.resize_with(threads - 1, Workspace::new);
        }
        let mut others = std::mem::take(&mut workspace.others);
        let workspaces = std::iter::once(&mut *workspace).chain(&mut others).take(threads);
        let mut workspaces: Vec<&mut Workspace> = workspaces.collect();
        let starts = |part| images * part / threads * answer_len;
        over(Uneven::new(y, threads, starts), &mut workspaces, |part, y, workspace| {
            let first = images * part / threads * image_len;
            let len = y.len() / answer_len * image_len;
            self.run_in_parts(isa, &x[first..][..len], y, workspace, 1);
        });
        drop(workspaces);
        workspace.others = others;
    }

    /// Runs as many images at a time as the cache holds.
    fn run_in_parts(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        workspace: &mut Workspace,
        threads: usize,
    ) {
        let [image_len, answer_len] = self.shapes().map(|shape| shape.iter().product::<usize>());
        let each: usize = self.slot_lens.iter().sum();
        let together = (TOGETHER / each.max(1)).max(1);
        let parts = x.chunks(together * image_len).zip(y.chunks_mut(together * answer_len));
        for (x, y) in parts {
            self.run_visited(isa, x, y, workspace, threads, |_, _| {});
        }
    }

    /// Runs images together, and shows every tensor between layers when it is there.
    pub(super) fn run_visited(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        workspace: &mut Workspace,
        threads: usize,
        mut visit: impl FnMut(usize, Numbers<'_>),
    ) {
        let [channels, height, width] = self.shapes[0];
        let images = x.len() / (channels * height * width);
        workspace.slots.resize_with(self.slot_lens.len().max(workspace.slots.len()), Vec::new);
        for (slot, len) in workspace.slots.iter_mut().zip(&self.slot_lens) {
            if slot.len() < images * len {
                slot.resize(images * len, 0);
            }
        }
        let Workspace { slots, scratch, float, .. } = workspace;
        let len = |tensor: usize| images * self.shapes[tensor].iter().product::<usize>();
        let codes = &mut slots[self.slots[0]][..x.len()];
        quantize_images(isa, self.schemes[0], channels, height * width, x, codes);
        visit(0, Numbers::Codes(codes));
        for (index, layer) in self.layers.iter().enumerate() {
            let tensor = index + 1;
            let first = layer.inputs[0];
            let threads = threads.min(1 + images * layer.multiply_adds / WORTH_A_THREAD);
            if let Kernel::Answer(linear) = &layer.kernel {
                let x = &slots[self.slots[first]][..len(first)];
                linear.run_f32(isa, x, y, scratch, threads);
                return;
            }
            let slot = self.slots[tensor];
            let mut to = std::mem::take(&mut slots[slot]);
            let codes = &mut to[..len(tensor)];
            let codes_of = |tensor: usize| &slots[self.slots[tensor]][..len(tensor)];
            let x = codes_of(first);
            let is_last = index + 1 == self.layers.len();
            match (&layer.kernel, &layer.source) {
                (Kernel::Convolution(kernel), _) => kernel.run(isa, x, codes, scratch, threads),
                (Kernel::Sum { convolution, addend }, _) => {
                    let addend = Addend { scheme: *addend, codes: codes_of(layer.inputs[1]) };
                    convolution.run_plus(isa, x, addend, codes, scratch, threads);
                }
                (Kernel::Pool(kernel), _) => kernel.run(isa, x, codes, scratch, threads),
                (Kernel::Linear(kernel), _) => kernel.run(isa, x, codes, scratch, threads),
                (Kernel::Add(kernel), _) => kernel.run(isa, x, codes_of(layer.inputs[1]), codes),
                (Kernel::Function(table), _) => table.run(x, codes),
                (Kernel::Multiply(product), _) => {
                    let each = x.len() / images.max(1);
                    let other = codes_of(layer.inputs[1]);
                    let others = other.chunks_exact((other.len() / images.max(1)).max(1));
                    let pairs = x.chunks_exact(each.max(1)).zip(others);
                    for ((a, b), y) in pairs.zip(codes.chunks_exact_mut(each.max(1))) {
                        product.run(isa, a, b, y);
                    }
                }
                (Kernel::Concatenate(joining), _) => {
                    for (part, &input) in layer.inputs.iter().enumerate() {
                        joining.run(part, codes_of(input), codes);
                    }
                }
                (Kernel::Float, Source::Float { step, .. }) => {
                    let real = |tensor: usize, to: &mut [f32]| {
                        self.real(isa, tensor, codes_of(tensor), to);
                    };
                    let is_codes = first == 0 || !self.layers[first - 1].is_float();
                    if is_codes && step.is_mean_of_images() {
                        float.mean(isa, self, tensor, (self.schemes[first], x));
                    } else {
                        float.run(self, step, tensor, images, real);
                    }
                    let given = float.tensor(tensor);
                    visit(tensor, Numbers::Real(given));
                    if is_last {
                        y.copy_from_slice(given);
                        return;
                    }
                    if self.is_read_as_codes(tensor) {
                        let [channels, height, width] = self.shapes[tensor];
                        let scheme = self.schemes[tensor];
                        quantize_images(isa, scheme, channels, height * width, given, codes);
                    }
                }
                (Kernel::Answer(_) | Kernel::Float, _) => unreachable!("returned above"),
            }
            if !layer.is_float() {
                visit(tensor, Numbers::Codes(codes));
            }
            slots[slot] = to;
        }
        let last = self.shapes.len() - 1;
        let codes = &slots[self.slots[last]][..len(last)];
        self.real(isa, last, codes, y);
    }

    /// Whether a layer in eight bits reads a tensor.
    pub(super) fn is_read_as_codes(&self, tensor: usize) -> bool {
        self.layers.iter().any(|layer| !layer.is_float() && layer.inputs.contains(&tensor))
    }

    /// Codes `[n, height, width, channels]` as numbers `[n, channels, height, width]`.
    pub(super) fn real(&self, isa: Isa, tensor: usize, codes: &[u8], y: &mut [f32]) {
        let [channels, height, width] = self.shapes[tensor];
        let pixels = height * width;
        if pixels == 1 || channels == 1 {
            dequantize(isa, self.schemes[tensor], codes, y);
            return;
        }
        let images =
            codes.chunks_exact(channels * pixels).zip(y.chunks_exact_mut(channels * pixels));
        for (codes, y) in images {
            for (channel, y) in y.chunks_exact_mut(pixels).enumerate() {
                for (y, codes) in y.iter_mut().zip(codes.chunks_exact(channels)) {
                    *y = self.schemes[tensor].real(codes[channel]);
                }
            }
        }
    }
}

/// What a tensor holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbers<'a> {
    /// `[n, height, width, channels]`.
    Codes(&'a [u8]),
    /// `[n, channels, height, width]`.
    Real(&'a [f32]),
}
