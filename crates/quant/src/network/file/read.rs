//! From bytes to a model: every length and number is checked before it is used.

use std::sync::Arc;

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use super::header::{self, Header, LowBits, Version};
use super::write::hashed;
use super::{FileError, HASH, KEY, VERSION};
use crate::network::fuse::Output;
use crate::network::layer::{Form, Int8Form, QuantizedLayer};
use crate::network::model::QuantizedModel;
use crate::network::plan::Reason;
use crate::operation::{self, Around, Lens, Operation, PackError, Parameters, Shapes};
use crate::scheme::ActivationScheme;
use crate::weights::{Coding, QuantizedWeights};

/// The most numbers of one sample of all tensors together: far above any network, far below an
/// overflow.
const MOST: usize = 1 << 31;

/// Bytes that the file's header may have, all of which are parsed.
const MOST_HEADER: u64 = 16 << 20;

impl QuantizedModel {
    /// A model from the bytes of a file; every length and number is checked before it is used, and
    /// at most a small multiple of the bytes is allocated.
    ///
    /// # Errors
    /// [`FileError`] for bytes of another format or version, that are truncated or damaged, or
    /// whose parts are not a valid model.
    pub fn try_from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let container = |cause: String| FileError::Container { cause };
        let len = bytes.first_chunk().map_or(0, |&len| u64::from_le_bytes(len));
        if len > MOST_HEADER {
            return Err(container(format!("a header of {len} bytes, more than {MOST_HEADER}")));
        }
        let file = SafeTensors::deserialize(bytes).map_err(|error| container(error.to_string()))?;
        let (_, metadata) =
            SafeTensors::read_metadata(bytes).map_err(|error| container(error.to_string()))?;
        let header = metadata.metadata().as_ref().and_then(|all| all.get(KEY));
        let text = header.ok_or(FileError::Foreign)?;
        let wrong = |error: serde_json::Error| FileError::Header { cause: error.to_string() };
        let Version { version } = serde_json::from_str(text).map_err(wrong)?;
        if version != VERSION {
            return Err(FileError::Version { version });
        }
        let mut tensors = file.tensors();
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        let hash = tensors.iter().position(|(name, _)| name == HASH);
        let (_, hash) = tensors.remove(hash.ok_or(FileError::Hash)?);
        let named = tensors.iter().map(|(name, view)| (name.as_str(), view.data()));
        if hashed(text, named) != *hash.data() {
            return Err(FileError::Hash);
        }
        let header: Header = serde_json::from_str(text).map_err(wrong)?;
        let (shapes, schemes) = (Vec::new(), Vec::new());
        let mut read = ModelReader { file, used: 0, numbers: 0, shapes, schemes };
        let model = read.model(header)?;
        if read.used != tensors.len() {
            return Err(invalid(0, "a tensor that no layer has"));
        }
        Ok(model)
    }
}

const fn invalid(layer: usize, what: &'static str) -> FileError {
    FileError::Value { layer, what }
}

/// Reads a model layer by layer, and keeps the shapes and schemes of the tensors read so far.
struct ModelReader<'a> {
    file: SafeTensors<'a>,
    /// Tensors of the file that were read.
    used: usize,
    /// Numbers of one sample of all tensors that were read.
    numbers: usize,
    shapes: Vec<Vec<usize>>,
    schemes: Vec<ActivationScheme>,
}

impl ModelReader<'_> {
    fn model(&mut self, header: Header) -> Result<QuantizedModel, FileError> {
        let Header { calibrated, joins_sums, speed_plans, inputs, layers, outputs, .. } = header;
        if inputs.is_empty() || layers.is_empty() || outputs.is_empty() {
            let cause = "a model has an input, a layer and an output at least".to_owned();
            return Err(FileError::Header { cause });
        }
        for header::Input { port, scheme } in &inputs {
            self.tensor(0, port.shape.clone(), *scheme)?;
        }
        let mut read = Vec::new();
        for (index, layer) in layers.into_iter().enumerate() {
            read.push(self.layer(index, layer)?);
        }
        let last = read.len() - 1;
        let output = |header::Output { port, tensor }| {
            let shape = self.shapes.get(tensor);
            let is_same = |shape: &Vec<usize>| {
                numbers(shape) == numbers(&port.shape) && !port.shape.is_empty()
            };
            let fits = shape.is_some_and(is_same);
            fits.then_some(Output { port, tensor }).ok_or(invalid(last, "an output"))
        };
        let outputs = outputs.into_iter().map(output).collect::<Result<_, _>>()?;
        let inputs = inputs.into_iter().map(|input| input.port).collect();
        let schemes = std::mem::take(&mut self.schemes);
        if !speed_plans.iter().all(|plan| plan.fits(read.len())) {
            return Err(invalid(last, "a plan of the faster arithmetic"));
        }
        let mut model = QuantizedModel::new(inputs, outputs, read, schemes, joins_sums, calibrated);
        model.speed_plans = speed_plans;
        Ok(model)
    }

    /// Adds a tensor that layers read or write.
    fn tensor(
        &mut self,
        layer: usize,
        shape: Vec<usize>,
        scheme: header::Scheme,
    ) -> Result<(), FileError> {
        let len = numbers(&shape).filter(|&len| !shape.is_empty() && (1..MOST).contains(&len));
        self.numbers += len.ok_or(invalid(layer, "the shape"))?;
        if self.numbers > MOST {
            return Err(invalid(layer, "the number of all tensors' numbers"));
        }
        let tensor = self.shapes.len();
        let scheme = ActivationScheme::try_from(scheme);
        self.schemes.push(scheme.map_err(|cause| FileError::Scheme { tensor, cause })?);
        self.shapes.push(shape);
        Ok(())
    }

    fn layer(&mut self, index: usize, layer: header::Layer) -> Result<QuantizedLayer, FileError> {
        let header::Layer { name, kind, settings, inputs, scheme, .. } = layer;
        let header::Layer { clip, is_zero, in_f32, low_bits, .. } = layer;
        let operation = operation::read(&kind, settings);
        let operation = operation.ok_or(invalid(index, "the kind"))?;
        let operation = operation.map_err(|_| invalid(index, "a setting"))?;
        let tensors = self.shapes.len();
        if inputs.is_empty() || inputs.iter().any(|&input| input >= tensors) {
            return Err(invalid(index, "an input"));
        }
        let x: Vec<_> = inputs.iter().map(|&input| self.shapes[input].clone()).collect();
        let schemes: Vec<_> = inputs.iter().map(|&input| self.schemes[input]).collect();
        let is_float = in_f32.is_some_and(|reason| reason != Reason::WeightsOnly);
        let of_file = self.parameters(index, is_float, low_bits, schemes[0])?;
        let y = operation.shape(&x, of_file.lens());
        let y = y.map_err(|cause| FileError::Operation { layer: index, cause })?;
        self.tensor(index, y.clone(), scheme)?;
        let given = self.schemes[tensors];
        let keeps = in_f32.is_some() || !operation.keeps_scheme() || given == schemes[0];
        if !clip.is_identity() && !operation.may_be_clipped() || !keeps {
            return Err(invalid(index, "the scheme, or the limits"));
        }
        let shapes = Shapes { x, y };
        let y = clip.output(given);
        let around = Around { weights: None, shapes: &shapes, x: &schemes, y };
        let form = form(index, operation.as_ref(), of_file, in_f32, around)?;
        let multiply_adds = operation.multiply_adds(&shapes);
        Ok(QuantizedLayer { name, operation, form, inputs, shapes, multiply_adds, clip, is_zero })
    }

    /// The parameters of a layer; `None` if the file has no weights of it.
    fn parameters(
        &mut self,
        layer: usize,
        is_float: bool,
        low_bits: Option<LowBits>,
        input: ActivationScheme,
    ) -> Result<OfFile, FileError> {
        let named = |part: &str| self.file.tensor(&format!("layer{layer}.{part}")).ok();
        let Some(weights) = named("weights") else {
            return match low_bits {
                None => Ok(OfFile::Nothing),
                Some(_) => Err(invalid(layer, "a missing tensor")),
            };
        };
        let missing = || invalid(layer, "a missing tensor");
        let bias = named("bias").ok_or_else(missing)?;
        let scales = named("scales");
        let (dtypes, scales) = if is_float {
            ([Dtype::F32; 2], None)
        } else {
            let of_weights = if low_bits.is_some() { Dtype::U8 } else { Dtype::I8 };
            ([of_weights, Dtype::I32], Some(scales.ok_or_else(missing)?))
        };
        if is_float && low_bits.is_some() {
            return Err(invalid(layer, "the bits of its weights"));
        }
        let is_of_reals = scales.as_ref().is_none_or(|scales| scales.dtype() == Dtype::F32);
        let channels: usize = bias.shape().iter().product();
        let is_shape = channels > 0
            && bias.shape() == [channels]
            && weights.shape().first() == Some(&channels)
            && scales.as_ref().is_none_or(|scales| scales.shape() == [channels]);
        if [weights.dtype(), bias.dtype()] != dtypes || !is_of_reals || !is_shape {
            return Err(invalid(layer, "the type or the shape of its parameters"));
        }
        self.used += 2 + usize::from(scales.is_some());
        let Some(scales) = scales else {
            let (weights, bias) = (reals(weights.data()), reals(bias.data()));
            let parameters = Parameters { weights, bias };
            let checked = parameters.check_finite();
            checked.map_err(|cause| FileError::Operation { layer, cause })?;
            return Ok(OfFile::Float(parameters));
        };
        let bias = fours(bias.data()).map(i32::from_le_bytes).collect();
        let (scales, wrong) = (reals(scales.data()), |cause| FileError::Weights { layer, cause });
        let Some(LowBits { format, each }) = low_bits else {
            let values = weights.data().iter().map(|&value| value as i8).collect();
            let weights = QuantizedWeights::try_new(values, scales, bias, input).map_err(wrong)?;
            return Ok(OfFile::Int8(weights, None));
        };
        // At most eight weights are in a byte, so that no other number can be true.
        let row = weights.shape().get(1).copied().unwrap_or_default();
        if weights.shape().len() != 2 || each == 0 || each > 8 * row {
            return Err(invalid(layer, "the number of its packed weights"));
        }
        let groups = channels * format.groups(each);
        let mut of_groups = |part: &str, is_there: bool, otherwise: u8| {
            if !is_there {
                return Ok(vec![otherwise; groups]);
            }
            let tensor = named(part).filter(|tensor| tensor.dtype() == Dtype::U8);
            self.used += 1;
            tensor.map(|tensor| tensor.data().to_vec()).ok_or_else(missing)
        };
        let multipliers = of_groups("multipliers", format.group().is_some(), 1)?;
        let zeros = of_groups("zeros", format.is_asymmetric(), 0)?;
        let coding = Coding::try_new(format, each, channels, multipliers, zeros).map_err(wrong)?;
        let values = coding.try_unpack(weights.data(), channels).map_err(wrong)?;
        let weights = QuantizedWeights::try_new(values, scales, bias, input).map_err(wrong)?;
        Ok(OfFile::Int8(weights, Some(coding)))
    }
}

/// The parameters of a layer as a file has them.
enum OfFile {
    Nothing,
    Float(Parameters),
    Int8(QuantizedWeights, Option<Coding>),
}

impl OfFile {
    fn lens(&self) -> Lens {
        match self {
            Self::Nothing => Lens::default(),
            Self::Float(parameters) => parameters.lens(),
            Self::Int8(weights, _) => {
                Lens { weights: weights.values().len(), bias: weights.channels() }
            }
        }
    }
}

/// Packs a layer that is to run in int8.
fn form(
    layer: usize,
    operation: &dyn Operation,
    parameters: OfFile,
    in_f32: Option<Reason>,
    around: Around<'_>,
) -> Result<Form, FileError> {
    let (weights, coding) = match (in_f32, parameters) {
        (Some(Reason::WeightsOnly), OfFile::Int8(weights, coding)) => (Some(weights), coding),
        (Some(reason), OfFile::Float(parameters)) => {
            return as_float(layer, operation, parameters, reason, around);
        }
        (Some(reason), _) => {
            return as_float(layer, operation, Parameters::default(), reason, around);
        }
        (None, OfFile::Int8(weights, coding)) => (Some(weights), coding),
        (None, _) => (None, None),
    };
    let packed = operation.pack(&Around { weights: weights.as_ref(), ..around });
    let packed = packed.map_err(|error| match error {
        PackError::Weights(cause) => FileError::Weights { layer, cause },
        PackError::Factor(cause) => FileError::Scheme { tensor: layer, cause },
    })?;
    let kernel = packed.ok_or(invalid(layer, "its int8 form"))?;
    let form = Form::Int8(Int8Form { kernel, coding: coding.map(Arc::new) });
    Ok(match in_f32 {
        Some(_) => form.with_float_activations(),
        None => form,
    })
}

/// A layer that is to run in f32.
fn as_float(
    layer: usize,
    operation: &dyn Operation,
    parameters: Parameters,
    reason: Reason,
    around: Around<'_>,
) -> Result<Form, FileError> {
    match operation.is_runnable(&parameters, around.shapes) {
        true => Ok(Form::in_f32(parameters.into(), reason)),
        false => Err(invalid(layer, "operations that burn cannot compute")),
    }
}

fn numbers(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &side| product.checked_mul(side))
}

fn reals(bytes: &[u8]) -> Vec<f32> {
    fours(bytes).map(f32::from_le_bytes).collect()
}

fn fours(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.as_chunks().0.iter().copied()
}
