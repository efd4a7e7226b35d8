//! A network on a device, and running it.

use std::fmt;
use std::ops::Range;

use cubecl::client::Client;
use updraft_simd::Isa;

use super::error::DeviceError;
use super::upload::{kernels_of, sample_words};
use crate::kernels::cube::{
    CubeConvolution, DeviceKernel, MOST_UNITS, Words, packed, runs_on, unpacked, words_of,
};
use crate::network::graph::Port;
use crate::network::model::QuantizedModel;
use crate::network::plan::Plan;
use crate::network::workspace::Workspace;

/// The most words of a tensor of the samples that run together, 64 MiB.
const TOGETHER: usize = 1 << 24;

/// A network in int8 whose layers run on a GPU, with the bits of [`QuantizedModel::run`].
///
/// Weights are copied to the device once. Inputs are converted to codes on the CPU, and codes or sums
/// of outputs come back. Layers in f32 run on the CPU, which computes the same bits; they must follow
/// all layers in int8 that they depend on, as [`Quantization::float_tail`] keeps them.
///
/// [`Quantization::float_tail`]: crate::Quantization::float_tail
pub struct DeviceInt8Network {
    client: Client,
    model: QuantizedModel,
    /// The kernel of each layer; none for those in f32.
    kernels: Vec<Option<Box<dyn DeviceKernel>>>,
    /// The last tensor that is computed on the device from each tensor, or the tensor itself.
    last_readers: Vec<usize>,
    /// Samples that run together.
    together: usize,
}

impl DeviceInt8Network {
    /// Copies a model to a device, with every layer in int8 that has an int8 form.
    pub(crate) fn try_with(model: &QuantizedModel, client: Client) -> Result<Self, DeviceError> {
        if !runs_on(&client) {
            let units = client.properties().hardware.max_units_per_cube;
            return Err(DeviceError::Units { units, needed: MOST_UNITS });
        }
        let model = model.in_int8();
        let kernels = kernels_of(&model, &client)?;
        let tensors = model.shapes.len();
        let mut last_readers: Vec<usize> = (0..tensors).collect();
        for (index, layer) in model.layers.iter().enumerate().filter(|(_, it)| !it.is_float()) {
            layer.inputs.iter().for_each(|&input| last_readers[input] = model.inputs.len() + index);
        }
        let largest = (0..tensors).map(|tensor| sample_words(&model, tensor)).max().unwrap_or(1);
        let together = (TOGETHER / largest).max(1);
        Ok(Self { client, model, kernels, last_readers, together })
    }

    /// The arithmetic of each layer: those in int8 run on the device, those in f32 on the CPU.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.model.plan()
    }

    /// The inputs, in order.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        self.model.inputs()
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Port> {
        self.model.outputs()
    }

    /// Computes all outputs: one slice for each input and output, with the numbers of some samples,
    /// channels first. The workspace and the threads are for layers in f32.
    ///
    /// The bits are those of [`QuantizedModel::run_all`] with all layers in int8 that have an int8
    /// form.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the device failed.
    ///
    /// # Panics
    /// If the number of slices differs, one is not a whole number of samples or two differ.
    pub fn run_all(
        &self,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<(), DeviceError> {
        let Self { model, .. } = self;
        let ends = [model.inputs.len(), model.outputs.len()];
        assert_eq!([x.len(), y.len()], ends, "a slice for each");
        let samples = x[0].len() / model.inputs[0].numbers();
        for (x, port) in x.iter().zip(self.inputs()) {
            assert_eq!(x.len(), samples * port.numbers(), "numbers of input `{}`", port.name);
        }
        for (y, port) in y.iter().zip(self.outputs()) {
            assert_eq!(y.len(), samples * port.numbers(), "numbers of output `{}`", port.name);
        }
        for first in (0..samples).step_by(self.together) {
            let part = first..samples.min(first + self.together);
            self.run_part(x, y, part, workspace, threads)?;
        }
        Ok(())
    }

    fn run_part(
        &self,
        x: &[&[f32]],
        y: &mut [&mut [f32]],
        part: Range<usize>,
        Workspace { float, .. }: &mut Workspace,
        threads: usize,
    ) -> Result<(), DeviceError> {
        let (model, isa, samples) = (&self.model, Isa::detect(), part.len());
        let places = |tensor: usize| part.start * model.len(tensor)..part.end * model.len(tensor);
        let mut codes = vec![Vec::new(); model.shapes.len()];
        for (tensor, x) in x.iter().enumerate() {
            let given = &x[places(tensor)];
            if model.is_coded(tensor) {
                codes[tensor] = vec![0; given.len()];
                model.quantize(isa, tensor, given, &mut codes[tensor]);
            } else {
                float.set(model.buffer(tensor), given);
                for output in self.outputs_of(tensor) {
                    y[output][places(tensor)].copy_from_slice(given);
                }
            }
        }
        for (tensor, words) in self.run_on_device(&codes, samples).into_iter().enumerate() {
            let Some(words) = words else { continue };
            let words = words.read(&self.client);
            let words = words.map_err(|error| DeviceError::Failed { cause: error.to_string() })?;
            match self.sums_of(tensor) {
                Some(product) => {
                    for output in self.outputs_of(tensor) {
                        write_sums(product, &words, &mut y[output][places(tensor)]);
                    }
                }
                None => codes[tensor] = unpacked(&words, model.shapes[tensor][0]),
            }
        }
        for (tensor, codes) in codes.iter().enumerate().filter(|(_, codes)| !codes.is_empty()) {
            for output in self.outputs_of(tensor) {
                model.real(isa, tensor, codes, &mut y[output][places(tensor)]);
            }
        }
        // A layer in f32 reads codes, and what those before it have computed.
        let first = model.inputs.len();
        for tensor in (first..model.shapes.len()).filter(|it| self.kernels[it - first].is_none()) {
            float.run(isa, model, tensor, samples, |it| codes[it].as_slice(), true, threads);
            let given = float.buffer(model.buffer(tensor), samples * model.len(tensor));
            for output in self.outputs_of(tensor) {
                y[output][places(tensor)].copy_from_slice(given);
            }
        }
        Ok(())
    }

    /// Launches the kernels of all layers; returns the words of the tensors that the CPU reads.
    fn run_on_device(&self, codes: &[Vec<u8>], samples: usize) -> Vec<Option<Words>> {
        let Self { client, model, .. } = self;
        let mut words: Vec<Option<Words>> = vec![None; model.shapes.len()];
        let inputs = model.inputs.len();
        for tensor in (0..inputs).filter(|&tensor| self.last_readers[tensor] > tensor) {
            let packed = packed(&codes[tensor], model.shapes[tensor][0]);
            words[tensor] = Some(Words::upload(client, &packed));
        }
        for (index, kernel) in self.kernels.iter().enumerate() {
            let Some(kernel) = kernel else { continue };
            let (layer, tensor) = (&model.layers[index], inputs + index);
            let given = |&input: &usize| words[input].as_ref().expect("it was computed before");
            let x: Vec<&Words> = layer.inputs.iter().map(given).collect();
            let y = match self.sums_of(tensor) {
                Some(product) => {
                    let y = Words::empty(client, samples * product.sum_words());
                    product.run_sums(client, x[0], &y, samples);
                    y
                }
                None => {
                    let y = Words::empty(client, samples * sample_words(model, tensor));
                    kernel.run(client, &x, &y, samples);
                    y
                }
            };
            words[tensor] = Some(y);
            for &input in &layer.inputs {
                if self.last_readers[input] == tensor && !self.is_read_back(input) {
                    words[input] = None;
                }
            }
        }
        // The codes of inputs come from the CPU.
        let is_read = |tensor: usize| tensor >= inputs && self.is_read_back(tensor);
        let kept = words.into_iter().enumerate();
        kept.map(|(tensor, words)| words.filter(|_| is_read(tensor))).collect()
    }

    /// The outputs of the network that a tensor is.
    fn outputs_of(&self, tensor: usize) -> Vec<usize> {
        let outputs = self.model.outputs.iter().enumerate();
        outputs.filter(|(_, output)| output.tensor == tensor).map(|(index, _)| index).collect()
    }

    /// Whether the CPU reads a tensor: it is an output, or a layer in f32 reads it.
    fn is_read_back(&self, tensor: usize) -> bool {
        let Self { model, .. } = self;
        let mut layers = model.layers.iter();
        model.outputs.iter().any(|output| output.tensor == tensor)
            || layers.any(|layer| layer.is_float() && layer.inputs.contains(&tensor))
    }

    /// The matrix product whose sums are an output, and whose codes no layer reads.
    fn sums_of(&self, tensor: usize) -> Option<&CubeConvolution> {
        let kernel = self.kernels[tensor.checked_sub(self.model.inputs.len())?].as_ref()?;
        let product = kernel.product()?;
        let is_output = self.model.outputs.iter().any(|output| output.tensor == tensor);
        (is_output && !self.model.is_coded(tensor)).then_some(product)
    }
}

/// The model's outputs; its weights are too many.
impl fmt::Debug for DeviceInt8Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs: Vec<&Port> = self.outputs().collect();
        let mut fields = formatter.debug_struct("DeviceInt8Network");
        fields.field("inputs", &self.inputs()).field("outputs", &outputs).finish_non_exhaustive()
    }
}

/// Sums `[samples, 4·words]` as real numbers `[samples, outputs]`.
fn write_sums(product: &CubeConvolution, words: &[u32], y: &mut [f32]) {
    let factors = product.dequantize();
    let samples = words.chunks_exact(4 * words_of(factors.len()));
    for (sums, y) in samples.zip(y.chunks_exact_mut(factors.len())) {
        for ((y, &sum), factor) in y.iter_mut().zip(sums).zip(factors) {
            *y = sum as i32 as f32 * factor;
        }
    }
}
