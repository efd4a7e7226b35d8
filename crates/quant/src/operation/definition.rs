//! The traits of an operation, and the arguments of their methods.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use updraft_conv::slices::{ConvGeometry, Scratch as FloatScratch};
use updraft_simd::Isa;

use super::error::OperationError;
use super::float::FloatKernel;
use super::parameters::{Lens, Parameters};
#[cfg(feature = "cube")]
use crate::kernels::cube::{DeviceReason, Uploaded};
use crate::kernels::{QuantizedLinear, Scratch};
use crate::network::Node;
use crate::scheme::{ActivationScheme, OutputScheme, SchemeError};
use crate::weights::{Coding, QuantizedWeights, WeightError};

/// An operation with its settings; its parameters are separate, in f32 or in int8.
///
/// Shapes are those of one sample, channels first. In f32 tensors are in that order, codes are
/// `[pixels, channels]`.
pub(crate) trait Operation: Kind + fmt::Debug + Send + Sync {
    /// The shape of its output, if its inputs and parameters fit.
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError>;

    /// Multiplications, each with its addition, for one sample.
    fn multiply_adds(&self, _shapes: &Shapes) -> usize {
        0
    }

    /// The convolution that multiplies its weights, if it has weights; a matrix product is one of
    /// a single pixel.
    fn geometry(&self, _shapes: &Shapes) -> Option<ConvGeometry> {
        None
    }

    /// Whether its sums are converted to f32 directly if it is an output.
    fn is_product(&self) -> bool {
        false
    }

    /// Groups of channels, each of which only weights of its own read.
    fn groups(&self) -> usize {
        1
    }

    /// Computes one sample in f32.
    fn run_f32(&self, job: FloatJob<'_>);

    /// Its weights packed in f32 for any number of samples, if it has weights to pack.
    fn pack_f32(
        &self,
        _isa: Isa,
        _parameters: &Parameters,
        _shapes: &Shapes,
    ) -> Option<FloatKernel> {
        None
    }

    /// Its integer weights packed for activations in f32.
    fn pack_weights(
        &self,
        isa: Isa,
        weights: &QuantizedWeights,
        _coding: Option<&Coding>,
        shapes: &Shapes,
    ) -> Option<FloatKernel> {
        self.pack_f32(isa, &weights.real(), shapes)
    }

    /// Its int8 kernel, if there is one.
    fn pack(&self, _around: &Around<'_>) -> Packed {
        Ok(None)
    }

    /// Its int8 kernel on a GPU with the codes of [`pack`](Self::pack), if there is one.
    #[cfg(feature = "cube")]
    fn upload(&self, _client: &cubecl::client::Client, _around: &Around<'_>) -> Uploaded {
        Err(DeviceReason::NoKernel)
    }

    /// Whether its settings and parameters, which may be from a file, can be computed.
    fn is_runnable(&self, _parameters: &Parameters, _shapes: &Shapes) -> bool {
        true
    }

    /// Whether burn computes it, in f32, possibly with infinite results; no other runtime knows it.
    fn is_in_burn(&self) -> bool {
        false
    }

    /// Adds its nodes to an ONNX file; returns the name of their value, before it is clipped.
    fn export(&self, node: &mut Node<'_>) -> String;

    /// The range of its input outside of which its result is that of the nearer end.
    fn live_range(&self) -> [f32; 2] {
        [f32::NEG_INFINITY, f32::INFINITY]
    }

    /// Whether limits of its output can be bounds of its codes.
    fn may_be_clipped(&self) -> bool {
        false
    }

    /// Its parameters if its output is scaled and shifted channel by channel.
    fn scale_output(&self, _parameters: &Parameters, _by: &Parameters) -> Option<Parameters> {
        None
    }

    /// The same operation on an input at `position` that is still to be scaled and shifted.
    fn scale_input(
        &self,
        _parameters: &Parameters,
        _position: usize,
        _by: &Parameters,
    ) -> Option<Work> {
        None
    }

    /// The factors of a sum of two tensors, if it is one.
    fn summands(&self) -> Option<[f32; 2]> {
        None
    }

    /// Its output, times `own`, plus another tensor, times `other`, as one operation.
    fn with_addend(&self, _parameters: &Parameters, [_own, _other]: [f32; 2]) -> Option<Work> {
        None
    }

    /// Whether its codes are those of its input, so that both have one scheme.
    fn keeps_scheme(&self) -> bool {
        false
    }

    /// Whether it is the mean over each whole image.
    fn is_mean_of_image(&self, _shapes: &Shapes) -> bool {
        false
    }
}

/// An operation's name and settings, for files; every [`Registered`] type has both.
pub(crate) trait Kind {
    fn kind(&self) -> &'static str;
    fn settings(&self) -> serde_json::Value;
}

/// The interface of an operation's type for the registry.
pub(crate) trait Registered: Serialize + DeserializeOwned {
    /// Its name in files.
    const KIND: &'static str;

    /// Converts burn's recorded operation to layers of the graph; `None` if it is another one.
    #[cfg(feature = "burn")]
    fn record(
        _reader: &mut crate::module::Reader<'_>,
        _operation: &burn::backend::ir::OperationIr,
        _layer: Option<&str>,
    ) -> Recorded {
        Ok(None)
    }
}

/// The result of converting an operation that burn recorded.
#[cfg(feature = "burn")]
pub(crate) type Recorded = Result<Option<crate::module::Meaning>, crate::module::CaptureError>;

impl<T: Registered> Kind for T {
    fn kind(&self) -> &'static str {
        T::KIND
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("settings are numbers, texts and lists of them")
    }
}

/// An operation with its parameters in f32.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) operation: Arc<dyn Operation>,
    pub(crate) parameters: Arc<Parameters>,
}

impl Work {
    pub(crate) fn new(operation: impl Operation + 'static, parameters: Parameters) -> Self {
        Self { operation: Arc::new(operation), parameters: Arc::new(parameters) }
    }
}

/// The shapes of an operation's inputs and output, for one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shapes {
    pub(crate) x: Vec<Vec<usize>>,
    pub(crate) y: Vec<usize>,
}

/// The int8 kernel of an operation, for any number of samples.
pub(crate) trait Kernel: fmt::Debug + Send + Sync {
    /// Computes the codes `y`.
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>);

    /// The matrix product, if it is one, whose sums can be returned in f32.
    fn product(&self) -> Option<&QuantizedLinear> {
        None
    }

    /// Its parameters in the order of the graph.
    fn weights(&self) -> Option<QuantizedWeights> {
        None
    }

    /// Bytes of its weights.
    fn bytes(&self) -> usize {
        0
    }

    /// Whether it has weights.
    fn has_weights(&self) -> bool {
        false
    }
}

/// The codes of the tensors that a kernel reads, by their position.
pub(crate) type Codes<'a> = &'a dyn Fn(usize) -> &'a [u8];

/// The instruction set, threads and work space of a kernel.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) isa: Isa,
    pub(crate) samples: usize,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) threads: usize,
}

/// One sample that is to be computed in f32.
#[derive(Debug)]
pub(crate) struct FloatJob<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) shapes: &'a Shapes,
    pub(crate) x: &'a [&'a [f32]],
    pub(crate) y: &'a mut [f32],
    pub(crate) space: &'a mut FloatSpace,
}

/// The work space of operations in f32.
#[derive(Debug, Clone, Default)]
pub(crate) struct FloatSpace {
    pub(crate) scratch: FloatScratch,
    pub(crate) values: Vec<f64>,
    /// Packed factors of products and their sums.
    pub(crate) panels: Vec<f32>,
}

impl FloatSpace {
    pub(crate) const fn new() -> Self {
        Self { scratch: FloatScratch::new(), values: Vec::new(), panels: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        let own =
            size_of::<f64>() * self.values.capacity() + size_of::<f32>() * self.panels.capacity();
        self.scratch.bytes() + own
    }
}

/// The schemes and shapes that a kernel is packed for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    /// The parameters of an operation that has parameters.
    pub(crate) weights: Option<&'a QuantizedWeights>,
    pub(crate) shapes: &'a Shapes,
    /// The schemes of its inputs.
    pub(crate) x: &'a [ActivationScheme],
    pub(crate) y: OutputScheme,
}

/// The int8 kernel of an operation, if there is one.
pub(crate) type Packed = Result<Option<Arc<dyn Kernel>>, PackError>;

/// Why an operation cannot be packed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PackError {
    Weights(WeightError),
    /// A summand's scheme, multiplied by its factor.
    Factor(SchemeError),
}

impl From<WeightError> for PackError {
    fn from(error: WeightError) -> Self {
        Self::Weights(error)
    }
}
