//! The int8 network of a run, which `quantize` writes.

use std::cell::RefCell;
use std::fmt;

use burn::tensor::{Device, Tensor};
#[cfg(feature = "cube")]
use updraft_quant::DeviceInt8Network;
use updraft_quant::slices::Isa;
use updraft_quant::{QuantizedModel, Workspace};

use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_record::{Int8Record, digest};
use crate::task::by_sample;

/// A network in int8 that was quantized from a run's model; it computes on the CPU, or on a GPU by
/// [`on_device`](Self::on_device).
///
/// Each layer runs in the arithmetic that is faster on this processor, by
/// [`QuantizedModel::for_processor`]. Its outputs have the same bits for any number of threads and
/// any batch size: on the processor where the run was quantized those that were scored. On others,
/// layers in f32 may be others, and differ by the rounding of their sums.
pub struct Int8Network {
    model: QuantizedModel,
    /// The same on a GPU, which computes then.
    #[cfg(feature = "cube")]
    on_gpu: Option<DeviceInt8Network>,
    isa: Isa,
    threads: usize,
    workspace: RefCell<Workspace>,
    /// Identifies the file's content.
    fingerprint: String,
}

impl Int8Network {
    /// The file of the network in a run folder.
    pub const FILE: &str = "model.int8";

    /// The file of a run folder that reports a quantization; it has the fields of [`Int8Record`].
    pub const REPORT: &str = "quant.json";

    /// Opens the int8 network of a run, to compute on the threads of rayon's pool.
    ///
    /// # Errors
    /// [`RunError::NotForTask`] if the task's models cannot be quantized, [`RunError::NoInt8`] for
    /// a run that was not quantized, that serves another model than the one that was, or whose
    /// file was replaced, [`RunError::Int8File`] for a file that is damaged,
    /// [`RunError::OtherInt8`] for the file of a network with other shapes, and [`RunError::Io`].
    pub fn open(folder: &RunFolder, plan: &Plan) -> Result<Self, RunError> {
        let quantizer = plan.quantizer()?;
        let run = || folder.path().to_owned();
        if !folder.has(Self::FILE) || !folder.has(Self::REPORT) {
            let reason = "it was not quantized".to_owned();
            return Err(RunError::NoInt8 { run: run(), reason });
        }
        let bytes = folder.read(Self::FILE)?;
        let path = || folder.path().join(Self::FILE);
        let model = QuantizedModel::try_from_bytes(&bytes)
            .map_err(|cause| RunError::Int8File { path: path(), cause })?
            .for_processor(Isa::detect());
        let record: Int8Record = folder.read_json(Self::REPORT)?;
        record.check_model(folder, plan)?;
        let expected = quantizer.int8_shapes(folder)?;
        let found = Int8Shapes::of(&model);
        if found.as_ref() != Some(&expected) {
            let found = found.map_or("several inputs".to_owned(), |it| it.to_string());
            return Err(RunError::OtherInt8 {
                path: path(),
                expected: expected.to_string(),
                found,
            });
        }
        record.check_network(folder, &bytes)?;
        Ok(Self {
            model,
            #[cfg(feature = "cube")]
            on_gpu: None,
            isa: Isa::detect().dot(),
            threads: updraft_simd::pool_threads(),
            workspace: RefCell::new(Workspace::new()),
            fingerprint: digest(&bytes),
        })
    }

    /// The same network on a GPU, its weights copied there. All layers with an int8 form run in int8,
    /// with the bits that they have on every CPU: those that were scored if no layer is faster in f32
    /// on the CPU that scored them. Layers in f32 at the end of the network run on the CPU.
    ///
    /// # Errors
    /// [`RunError::Int8Device`] for a device or a network that the kernels for GPUs do not compute, or
    /// a program without them.
    pub fn on_device(self, device: &Device) -> Result<Self, RunError> {
        let refused = |reason: String| {
            let device = format!("{device:?}");
            RunError::Int8Device { device, reason }
        };
        #[cfg(feature = "cube")]
        {
            let network = DeviceInt8Network::try_new(&self.model, device);
            let network = network.map_err(|error| refused(error.to_string()))?;
            Ok(Self { on_gpu: Some(network), ..self })
        }
        #[cfg(not(feature = "cube"))]
        {
            Err(refused("this program was built without the feature of a GPU backend".to_owned()))
        }
    }

    /// Identifies the network.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The outputs of a batch, on the device of the inputs.
    ///
    /// # Shapes
    /// - `inputs`: `[batch, …]`, as [`Quantizer::int8_shapes`](crate::Quantizer::int8_shapes)
    /// - returns: `[batch, …]`
    ///
    /// # Panics
    /// If the inputs have another shape, there are several outputs, or the GPU failed.
    #[must_use]
    pub fn forward<const I: usize, const O: usize>(&self, inputs: Tensor<I>) -> Tensor<O> {
        let mut outputs = self.forward_all(inputs);
        assert_eq!(outputs.len(), 1, "the outputs of the network");
        outputs.remove(0)
    }

    /// The same with all outputs, which have as many axes.
    ///
    /// # Panics
    /// If the inputs have another shape, or the GPU failed.
    #[must_use]
    pub fn forward_all<const I: usize, const O: usize>(&self, inputs: Tensor<I>) -> Vec<Tensor<O>> {
        let workspace = &mut self.workspace.borrow_mut();
        #[cfg(feature = "cube")]
        if let Some(network) = &self.on_gpu {
            let outputs = network.forward(inputs, workspace, self.threads);
            return outputs.unwrap_or_else(|error| panic!("{error}"));
        }
        self.model.forward(self.isa, inputs, workspace, self.threads)
    }

    /// The same on slices: samples one after the other, channels first, and of each sample all
    /// outputs.
    ///
    /// # Panics
    /// If the inputs are not a whole number of samples, or the GPU failed.
    #[must_use]
    pub fn outputs(&self, inputs: &[f32]) -> Vec<f32> {
        let workspace = &mut self.workspace.borrow_mut();
        #[cfg(feature = "cube")]
        if let Some(network) = &self.on_gpu {
            return each_by_sample(&self.model, inputs, |outputs| {
                let ran = network.run_all(&[inputs], outputs, workspace, self.threads);
                ran.unwrap_or_else(|error| panic!("{error}"));
            });
        }
        run_by_sample(&self.model, inputs, (self.isa, self.threads), workspace)
    }
}

/// The numbers of all outputs of a model with one input, sample by sample.
pub(crate) fn run_by_sample(
    model: &QuantizedModel,
    inputs: &[f32],
    (isa, threads): (Isa, usize),
    workspace: &mut Workspace,
) -> Vec<f32> {
    each_by_sample(model, inputs, |outputs| {
        model.run_all(isa, &[inputs], outputs, workspace, threads);
    })
}

/// The numbers of all outputs, which `run` computes, sample by sample.
fn each_by_sample(
    model: &QuantizedModel,
    inputs: &[f32],
    run: impl FnOnce(&mut [&mut [f32]]),
) -> Vec<f32> {
    let samples = inputs.len() / model.inputs()[0].numbers();
    let mut outputs: Vec<Vec<f32>> =
        model.outputs().map(|port| vec![0.0; samples * port.numbers()]).collect();
    let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    run(&mut slices);
    by_sample(outputs, samples)
}

/// The file's fingerprint; a network has too many numbers.
impl fmt::Debug for Int8Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Int8Network")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// The shapes of a network with one input, without the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Int8Shapes {
    /// The shape of an input, channels first.
    pub input: Vec<usize>,
    /// The shape of each output, channels first.
    pub outputs: Vec<Vec<usize>>,
}

impl Int8Shapes {
    /// Those of a model; `None` if it has several inputs.
    fn of(model: &QuantizedModel) -> Option<Self> {
        let [input] = model.inputs() else { return None };
        let outputs = model.outputs().map(|port| port.shape.clone()).collect();
        Some(Self { input: input.shape.clone(), outputs })
    }
}

/// `[3, 16, 16] to [10]`, several outputs with "and" between them.
impl fmt::Display for Int8Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs: Vec<String> =
            self.outputs.iter().map(|output| format!("{output:?}")).collect();
        write!(f, "{:?} to {}", self.input, outputs.join(" and "))
    }
}
