//! A graph in int8: calibrated, packed, and run.

use updraft_simd::{Aligned, Isa, over};

use super::buffers::assign_buffers;
use super::ends::BoundaryElement;
use super::error::QuantizeError;
use super::fuse::Output;
use super::graph::{Graph, Port};
use super::layer::{Form, Int8Form, QuantizedLayer};
use super::observation::Observation;
use super::quantization::{Calibrated, Quantization};
use super::rounding::RoundedLayer;
use super::samples::Samples;
use super::speed::SpeedPlan;
use super::workspace::Workspace;
use crate::operation::Job;
use crate::scheme::ActivationScheme;

/// The most bytes of the tensors of samples that run together, so that they stay in the
/// second-level cache.
const TOGETHER: usize = 256 << 10;

/// Multiply-adds of a layer per additional thread: about the time of waking one.
const WORTH_A_THREAD: usize = 1 << 20;

/// A network that computes in int8, from f32 to f32.
///
/// Activations have one scheme per tensor, weights one scale per output channel. A fully connected
/// layer whose result is an output converts its sums to f32 directly.
#[derive(Debug, Clone)]
pub struct QuantizedModel {
    /// The inputs are the first tensors. The output of layer `i` is tensor `inputs + i`.
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Output>,
    pub(super) layers: Vec<QuantizedLayer>,
    /// The shape of each tensor.
    pub(super) shapes: Vec<Vec<usize>>,
    pub(super) schemes: Vec<ActivationScheme>,
    /// The buffer of each tensor.
    buffers: Vec<usize>,
    /// Bytes of each buffer for one sample.
    buffer_lens: Vec<usize>,
    /// Whether residual sums are fused into convolutions.
    pub(super) joins_sums: bool,
    pub(super) calibrated: Calibrated,
    /// Layers whose weights were rounded by their results.
    pub(super) rounded: Vec<RoundedLayer>,
    /// Which layers are faster in f32, by class of processors.
    pub(super) speed_plans: Vec<SpeedPlan>,
}

impl QuantizedModel {
    /// Runs the graph in f32 over batches of samples, observes every tensor, and packs the layers.
    /// [`plan`](Self::plan) says which of them stay in f32.
    ///
    /// Memory does not depend on the number of samples. The output of a layer that is zero for
    /// every one of them (a dead rectifier) has the scheme of the layer's input, where zero has an
    /// exact code; the plan reports it.
    ///
    /// # Errors
    /// [`QuantizeError`] for a graph without layers, a layer to keep that does not exist, data that
    /// is missing, incomplete, not finite or only zeros.
    pub fn try_quantize<B: Samples>(
        graph: &Graph,
        batches: impl IntoIterator<Item = B>,
        by: impl Into<Quantization>,
    ) -> Result<Self, QuantizeError> {
        let by = by.into();
        Observation::try_new(graph, batches, &by)?.try_quantize(&by)
    }

    /// A model of compatible layers.
    pub(super) fn new(
        inputs: Vec<Port>,
        outputs: Vec<Output>,
        layers: Vec<QuantizedLayer>,
        schemes: Vec<ActivationScheme>,
        joins_sums: bool,
        calibrated: Calibrated,
    ) -> Self {
        let of_inputs = inputs.iter().map(|port| port.shape.clone());
        let shapes: Vec<_> =
            of_inputs.chain(layers.iter().map(|layer| layer.shapes.y.clone())).collect();
        let (buffers, buffer_lens) = assign_buffers(inputs.len(), &layers, &shapes);
        Self {
            inputs,
            outputs,
            layers,
            shapes,
            schemes,
            buffers,
            buffer_lens,
            joins_sums,
            calibrated,
            rounded: Vec::new(),
            speed_plans: Vec::new(),
        }
    }

    /// The calibration of the model.
    #[must_use]
    pub const fn calibrated(&self) -> &Calibrated {
        &self.calibrated
    }

    /// The inputs, in order.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Port> {
        self.outputs.iter().map(|output| &output.port)
    }

    /// Bytes of all packed integer weights, and of the weights in f32. A run packs the latter once
    /// more, and integer weights of layers in f32: up to five times their bytes in f32, which are not
    /// counted.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.layers.iter().map(QuantizedLayer::weight_bytes).sum()
    }

    /// Computes the outputs of a model with one input and one output: `x` and `y` have the numbers
    /// of some samples, channels first.
    ///
    /// The same bytes for any number of threads; of a network whose layers are all in int8, also for
    /// every instruction set. Layers in f32 take the processor's best set, and sets round their sums
    /// differently. Threads share the samples or, if there are fewer, the layers that are large
    /// enough. NaN in an input that an int8 layer reads counts as the lowest code.
    ///
    /// # Panics
    /// If the model has several inputs or outputs, a slice is not a whole number of samples or the
    /// two differ, or the CPU does not have `isa`.
    pub fn run(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        workspace: &mut Workspace,
        threads: usize,
    ) {
        self.run_all(isa, &[x], &mut [y], workspace, threads);
    }

    /// Computes all outputs, as [`run`](Self::run) does: one slice for each input and output.
    ///
    /// # Panics
    /// If the number of slices differs, one is not a whole number of samples or two differ, or the
    /// CPU does not have `isa`.
    pub fn run_all(
        &self,
        isa: Isa,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        workspace: &mut Workspace,
        threads: usize,
    ) {
        self.run_ends(isa, x, y, workspace, threads);
    }

    /// Computes all outputs from real numbers to real numbers, or from codes to codes.
    pub(super) fn run_ends<N: BoundaryElement>(
        &self,
        isa: Isa,
        x: &[&[N]],
        y: &mut [&mut [N]],
        workspace: &mut Workspace,
        threads: usize,
    ) {
        assert_eq!([x.len(), y.len()], [self.inputs.len(), self.outputs.len()], "a slice for each");
        let samples = x[0].len() / self.inputs[0].numbers();
        for (x, port) in x.iter().zip(&self.inputs) {
            assert_eq!(x.len(), samples * port.numbers(), "numbers of input `{}`", port.name);
        }
        for (y, port) in y.iter().zip(self.outputs()) {
            assert_eq!(y.len(), samples * port.numbers(), "numbers of output `{}`", port.name);
        }
        let threads = updraft_simd::threads(threads);
        if threads == 1 || samples < threads {
            self.run_in_parts(isa, x, y, samples, workspace, threads, |_, _| {});
            return;
        }
        // Samples are independent: each thread computes all layers of some, also those whose
        // kernels use one thread, without waiting for others.
        if workspace.others.len() < threads - 1 {
            workspace.others.resize_with(threads - 1, Workspace::new);
        }
        let mut others = std::mem::take(&mut workspace.others);
        let workspaces = std::iter::once(&mut *workspace).chain(&mut others).take(threads);
        let mut workspaces: Vec<&mut Workspace> = workspaces.collect();
        let start = |part: usize| samples * part / threads;
        let mut rest: Vec<&mut [N]> = y.iter_mut().map(|y| &mut **y).collect();
        let parts = (0..threads).map(|part| {
            let count = start(part + 1) - start(part);
            let ends = rest.iter_mut().zip(self.outputs());
            ends.map(|(rest, port)| {
                let (now, later) = std::mem::take(rest).split_at_mut(count * port.numbers());
                *rest = later;
                now
            })
            .collect()
        });
        let parts: Vec<Vec<&mut [N]>> = parts.collect();
        over(parts, &mut workspaces, |part, mut y, workspace| {
            let (first, count) = (start(part), start(part + 1) - start(part));
            let x: Vec<&[N]> = x
                .iter()
                .zip(&self.inputs)
                .map(|(x, port)| &x[first * port.numbers()..][..count * port.numbers()])
                .collect();
            self.run_in_parts(isa, &x, &mut y, count, workspace, 1, |_, _| {});
        });
        drop(workspaces);
        workspace.others = others;
    }

    /// Runs as many samples at a time as fit into the cache.
    #[expect(clippy::too_many_arguments, reason = "what a run is made of")]
    pub(super) fn run_in_parts<N: BoundaryElement>(
        &self,
        isa: Isa,
        x: &[&[N]],
        y: &mut [&mut [N]],
        samples: usize,
        workspace: &mut Workspace,
        threads: usize,
        mut visit: impl FnMut(usize, Moment<'_>),
    ) {
        let each: usize = self.buffer_lens.iter().sum();
        let together = (TOGETHER / each.max(1)).max(1);
        for first in (0..samples).step_by(together) {
            let part = first..samples.min(first + together);
            self.run_visited(isa, x, y, part, workspace, threads, &mut visit);
        }
    }

    /// Runs some of the samples together, and passes every tensor between layers to a closure.
    #[expect(clippy::too_many_arguments, reason = "what a run is made of")]
    pub(super) fn run_visited<N: BoundaryElement>(
        &self,
        isa: Isa,
        x: &[&[N]],
        y: &mut [&mut [N]],
        part: std::ops::Range<usize>,
        workspace: &mut Workspace,
        threads: usize,
        mut visit: impl FnMut(usize, Moment<'_>),
    ) {
        let samples = part.len();
        workspace
            .buffers
            .resize_with(self.buffer_lens.len().max(workspace.buffers.len()), Aligned::new);
        for (buffer, len) in workspace.buffers.iter_mut().zip(&self.buffer_lens) {
            buffer.grown(samples * len);
        }
        let Workspace { buffers, scratch, float, .. } = workspace;
        for tensor in 0..self.shapes.len() {
            let len = samples * self.len(tensor);
            let buffer = self.buffers[tensor];
            let mut to = std::mem::take(&mut buffers[buffer]);
            let codes = to.numbers_mut(len);
            let places_of =
                |tensor: usize| part.start * self.len(tensor)..part.end * self.len(tensor);
            let codes_of = |tensor: usize| {
                let given = x.get(tensor).and_then(|x| N::codes(&x[places_of(tensor)]));
                let own = || buffers[self.buffers[tensor]].numbers(samples * self.len(tensor));
                given.unwrap_or_else(own)
            };
            let places = places_of(tensor);
            let outputs = (0..y.len()).filter(|&output| self.outputs[output].tensor == tensor);
            let is_output = outputs.clone().next().is_some();
            let Some(layer) = self.layer_of(tensor) else {
                let given = &x[tensor][places.clone()];
                if let Some(numbers) = N::real(given).filter(|_| !self.is_coded(tensor)) {
                    float.set(buffer, numbers);
                    visit(tensor, Moment::Computed(Numbers::Real(numbers)));
                    outputs.for_each(|output| y[output][places.clone()].copy_from_slice(given));
                    visit(tensor, Moment::Converted);
                    buffers[buffer] = to;
                    continue;
                }
                let codes = N::codes(given).unwrap_or_else(|| {
                    N::read(self, isa, tensor, given, codes);
                    codes
                });
                visit(tensor, Moment::Computed(Numbers::Codes(codes)));
                outputs.for_each(|output| {
                    N::write(self, isa, tensor, codes, &mut y[output][places.clone()]);
                });
                visit(tensor, Moment::Converted);
                buffers[buffer] = to;
                continue;
            };
            let threads = threads.min(1 + samples * layer.multiply_adds / WORTH_A_THREAD);
            match &layer.form {
                Form::Int8(Int8Form { kernel, .. }) => {
                    // What no layer reads is written where the caller receives it.
                    let is_last = is_output && !N::is_read(self, tensor);
                    let last = outputs.clone().next().filter(|_| is_last);
                    let last = last.map(|output| (output, &mut y[output][places.clone()]));
                    let x = |position: usize| codes_of(layer.inputs[position]);
                    let given = match (last, kernel.product()) {
                        (Some((first, y)), Some(product)) if N::IS_REAL => {
                            let y = N::real_mut(y).expect("real numbers");
                            product.run_f32(isa, x(0), y, scratch, threads);
                            visit(tensor, Moment::Computed(Numbers::Real(y)));
                            Some(first)
                        }
                        (Some((first, y)), _) if !N::IS_REAL => {
                            let y = N::codes_mut(y).expect("codes");
                            kernel.run(&x, y, &mut Job { isa, samples, scratch, threads });
                            visit(tensor, Moment::Computed(Numbers::Codes(y)));
                            Some(first)
                        }
                        _ => {
                            kernel.run(&x, codes, &mut Job { isa, samples, scratch, threads });
                            visit(tensor, Moment::Computed(Numbers::Codes(codes)));
                            None
                        }
                    };
                    for output in outputs {
                        match given {
                            Some(first) if first != output => {
                                let (before, after) = y.split_at_mut(output);
                                after[0][places.clone()]
                                    .copy_from_slice(&before[first][places.clone()]);
                            }
                            Some(_) => {}
                            None => {
                                N::write(self, isa, tensor, codes, &mut y[output][places.clone()])
                            }
                        }
                    }
                }
                Form::F32 { .. } | Form::WeightsOnly(_) => {
                    float.run(isa, self, tensor, samples, codes_of, N::IS_REAL, threads);
                    let given = float.buffer(buffer, len);
                    visit(tensor, Moment::Computed(Numbers::Real(given)));
                    outputs.for_each(|output| {
                        N::write_real(self, isa, tensor, given, &mut y[output][places.clone()]);
                    });
                    if self.is_coded(tensor) {
                        self.quantize(isa, tensor, given, codes);
                    }
                }
            }
            visit(tensor, Moment::Converted);
            buffers[buffer] = to;
        }
    }

    /// The layer that computes a tensor; `None` for an input.
    pub(super) fn layer_of(&self, tensor: usize) -> Option<&QuantizedLayer> {
        self.layers.get(tensor.checked_sub(self.inputs.len())?)
    }

    /// The buffer of a tensor, of codes and of numbers.
    pub(super) fn buffer(&self, tensor: usize) -> usize {
        self.buffers[tensor]
    }

    /// Numbers of one sample of a tensor.
    pub(super) fn len(&self, tensor: usize) -> usize {
        self.shapes[tensor].iter().product()
    }

    /// Whether the codes of a tensor are needed: by an int8 layer that reads it,
    /// any layer if it is an int8 output, or its limits, which are bounds of codes.
    pub(super) fn is_coded(&self, tensor: usize) -> bool {
        let is_float = self.layer_of(tensor).is_none_or(QuantizedLayer::is_float);
        let is_cut = self.layer_of(tensor).is_some_and(|layer| !layer.clip.is_identity());
        let mut readers = self.layers.iter().filter(|layer| layer.inputs.contains(&tensor));
        !is_float && is_cut || readers.any(|layer| !is_float || !layer.is_float())
    }
}

/// A moment of a run, for one tensor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moment<'a> {
    /// It was computed.
    Computed(Numbers<'a>),
    /// It was converted for its readers and for the caller.
    Converted,
}

/// The contents of a tensor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbers<'a> {
    /// `[n, …, channels]`.
    Codes(&'a [u8]),
    /// `[n, channels, …]`.
    Real(&'a [f32]),
}
