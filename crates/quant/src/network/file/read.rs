//! From bytes to a model: every length and number is checked before it is used.

use sha2::{Digest, Sha256};

use super::bytes::Reader;
use super::{FileError, MAGIC, VERSION};
use crate::kernels::Pooling;
use crate::network::function::{Binary, Function, Line, Unary};
use crate::network::fuse::{Step, Work};
use crate::network::layer::{PackError, QuantizedLayer, Source, Tensors};
use crate::network::model::QuantizedModel;
use crate::network::plan::Reason;
use crate::network::quantization::Calibrated;
use crate::network::slots::assign_slots;
use crate::observe::Calibration;
use crate::scheme::ActivationScheme;

/// Numbers that one image of a tensor may have: far above any network, far below what overflows.
const MOST: usize = 1 << 31;

impl QuantizedModel {
    /// A model from the bytes of a file; every length and number is checked before it is used.
    ///
    /// # Errors
    /// [`FileError`] for bytes of another format or version, that are cut or damaged, or whose
    /// parts make no model.
    pub fn try_from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let mut file = Reader { bytes, at: 0 };
        if file.take(8, "its first bytes").map_err(|_| FileError::Foreign)? != MAGIC {
            return Err(FileError::Foreign);
        }
        let version = file.number("its version")?;
        if version != VERSION as usize {
            return Err(FileError::Version { version: version as u32 });
        }
        let len = u64::from_le_bytes(file.array("its length")?);
        let hash: [u8; 32] = file.array("its hash")?;
        let here = bytes.len() - file.at;
        match usize::try_from(len) {
            Ok(len) if len < here => return Err(FileError::Trailing { extra: here - len }),
            Ok(len) if len == here => {}
            _ => return Err(FileError::Truncated { what: "its layers", at: bytes.len() }),
        }
        if Sha256::digest(&bytes[file.at..])[..] != hash {
            return Err(FileError::Hash);
        }
        read_body(&mut file)
    }
}

fn read_body(file: &mut Reader<'_>) -> Result<QuantizedModel, FileError> {
    let calibrated = read_calibrated(file)?;
    let [joins_sums] = flags(file, 0)?;
    let count = file.number("the number of layers")?;
    if count == 0 {
        return Err(invalid(0, "the number of layers"));
    }
    let (mut shapes, mut schemes) = (Vec::new(), Vec::new());
    for tensor in 0..=count {
        let shape: [usize; 3] = file.numbers("a shape")?;
        let numbers = shape.iter().try_fold(1_usize, |product, &side| product.checked_mul(side));
        if !numbers.is_some_and(|numbers| (1..MOST).contains(&numbers)) {
            return Err(invalid(tensor.saturating_sub(1), "the shape"));
        }
        let scale = f32::from_le_bytes(file.array("a scale")?);
        let [zero] = file.array("a zero point")?;
        let scheme = ActivationScheme::try_new(scale, zero);
        shapes.push(shape);
        schemes.push(scheme.map_err(|source| FileError::Scheme { tensor, source })?);
    }
    let mut layers = Vec::new();
    for index in 0..count {
        let tensors = Tensors { schemes: &schemes, shapes: &shapes };
        layers.push(read_layer(file, index, tensors)?);
    }
    let extra = file.bytes.len() - file.at;
    if extra > 0 {
        return Err(FileError::Trailing { extra });
    }
    let (slots, slot_lens) = assign_slots(&layers, &shapes);
    Ok(QuantizedModel { layers, shapes, schemes, slots, slot_lens, joins_sums, calibrated })
}

const fn invalid(layer: usize, what: &'static str) -> FileError {
    FileError::Value { layer, what }
}

fn read_calibrated(file: &mut Reader<'_>) -> Result<Calibrated, FileError> {
    let [kind] = file.array("the calibration")?;
    let fraction = f64::from_le_bytes(file.array("the calibration")?);
    let is_fraction = fraction > 0.0 && fraction <= 1.0;
    let calibration = match kind {
        0 if fraction.to_bits() == 0 => Calibration::MinMax,
        1 if is_fraction => Calibration::Percentile(fraction),
        2 if fraction.to_bits() == 0 => Calibration::Entropy,
        3 if fraction.to_bits() == 0 => Calibration::MeanSquaredError,
        _ => return Err(invalid(0, "the calibration")),
    };
    let images = u64::from_le_bytes(file.array("the number of images")?);
    let set_hash = file.bytes("the set's hash")?.to_vec();
    let set_hash = String::from_utf8(set_hash).map_err(|_| invalid(0, "the set's hash"))?;
    Ok(Calibrated { calibration, images, set_hash })
}

fn flags<const N: usize>(file: &mut Reader<'_>, layer: usize) -> Result<[bool; N], FileError> {
    let flags: [u8; N] = file.array("a flag")?;
    if flags.iter().any(|&flag| flag > 1) {
        return Err(invalid(layer, "a flag"));
    }
    Ok(flags.map(|flag| flag == 1))
}

fn read_layer(
    file: &mut Reader<'_>,
    layer: usize,
    tensors: Tensors<'_>,
) -> Result<QuantizedLayer, FileError> {
    let Tensors { schemes, shapes } = tensors;
    let name = file.bytes("a name")?.to_vec();
    let name = String::from_utf8(name).map_err(|_| invalid(layer, "the name"))?;
    let [is_rectified, is_zero] = flags(file, layer)?;
    let mut inputs = Vec::new();
    for _ in 0..file.number("the number of inputs")? {
        inputs.extend(file.numbers::<1>("an input")?);
    }
    if inputs.is_empty() || inputs.iter().any(|&input| input > layer) {
        return Err(invalid(layer, "an input"));
    }
    let [from, to] = [shapes[inputs[0]], shapes[layer + 1]];
    let scheme = schemes[inputs[0]];
    let [kind] = file.array("a kind")?;
    let source = match kind {
        0 => {
            let geometry = file.window(layer, from, to)?;
            let weights = file.weights(layer, scheme)?;
            Source::Convolution { geometry, weights, addend: read_addend(file, layer)? }
        }
        1 => Source::Add { factors: read_factors(file, layer)? },
        2 => {
            let geometry = file.window(layer, from, to)?;
            Source::Pool { geometry, pooling: read_pooling(file, layer)? }
        }
        3 => Source::Linear { weights: file.weights(layer, scheme)? },
        4 => Source::Function(read_program(file, layer)?),
        5 => Source::Multiply,
        6 => Source::Concatenate,
        7 => {
            let (reason, work) = read_float(file, layer, from, to)?;
            let (name, inputs) = (name.clone(), inputs.clone());
            Source::Float { step: Step { name, work, is_rectified, inputs, shape: to }, reason }
        }
        _ => return Err(invalid(layer, "the kind")),
    };
    let keeps = schemes[layer + 1] == scheme;
    if !fits(&source, &inputs, is_rectified, keeps, shapes, to) {
        return Err(invalid(layer, "the shape of its parts"));
    }
    let packed =
        QuantizedLayer::try_from_source(name, source, inputs, is_rectified, layer + 1, tensors);
    let packed = packed.map_err(|error| match error {
        PackError::Weights(source) => FileError::Weights { layer, source },
        PackError::Factor(source) => FileError::Scheme { tensor: layer + 1, source },
    })?;
    Ok(QuantizedLayer { is_zero, ..packed })
}

/// Whether a layer's parts, what it reads and what it gives belong together.
fn fits(
    source: &Source,
    inputs: &[usize],
    is_rectified: bool,
    keeps_scheme: bool,
    shapes: &[[usize; 3]],
    to: [usize; 3],
) -> bool {
    let of_step;
    let part = match source {
        Source::Convolution { geometry, weights, addend } => {
            return reads_addend(*addend, inputs, shapes, to)
                && weights.channels() == geometry.shape().channels[1]
                && weights.values().len() == geometry.weight_len();
        }
        Source::Linear { weights } => {
            return is_linear(shapes[inputs[0]], to, [weights.channels(), weights.each()])
                && inputs.len() == 1;
        }
        Source::Add { factors } => Work::Add { factors: *factors },
        Source::Pool { geometry, pooling } => {
            let is_maximum = *pooling == Pooling::Maximum;
            if is_maximum && (is_rectified || !keeps_scheme) {
                return false;
            }
            Work::Pool { geometry: *geometry, pooling: *pooling }
        }
        Source::Function(function) => Work::Function(function.clone()),
        Source::Multiply => Work::Multiply,
        Source::Concatenate => Work::Concatenate,
        Source::Float { step, .. } => {
            of_step = step.work.clone();
            of_step
        }
    };
    let from = shapes[inputs[0]];
    let second = inputs.get(1).map(|&input| shapes[input]);
    let may_be_cut = matches!(
        part,
        Work::Convolution { .. } | Work::Linear { .. } | Work::Add { .. } | Work::Pool { .. }
    );
    let count = match part {
        Work::Add { .. } | Work::Multiply | Work::Convolution { addend: Some(_), .. } => 2,
        _ => 1,
    };
    let is_count = inputs.len() == count || part == Work::Concatenate;
    let is_shape = match &part {
        Work::Convolution { geometry, weights, bias, addend } => {
            reads_addend(*addend, inputs, shapes, to)
                && weights.len() == geometry.weight_len()
                && bias.len() == to[0]
        }
        Work::Linear { weights, bias } => {
            !bias.is_empty()
                && weights.len() % bias.len() == 0
                && is_linear(from, to, [bias.len(), weights.len() / bias.len()])
        }
        Work::Add { factors } => {
            let are_factors = factors.iter().all(|factor| factor.is_normal() && *factor > 0.0);
            are_factors && from == to && second == Some(from)
        }
        Work::Pool { geometry, .. } => {
            let groups = geometry.shape().groups;
            geometry.shape().channels == [groups; 2]
        }
        Work::Function(_) | Work::Softmax => from == to,
        Work::Multiply => from == to && second.is_some_and(|b| b == from || b == [from[0], 1, 1]),
        Work::Concatenate => {
            let channels = inputs.iter().try_fold(0_usize, |sum, &input| {
                let [channels, height, width] = shapes[input];
                ([height, width] == [to[1], to[2]]).then(|| sum.checked_add(channels)).flatten()
            });
            channels == Some(to[0])
        }
    };
    is_count && is_shape && (may_be_cut || !is_rectified)
}

/// Whether what a convolution adds, if anything, is there and of its output's shape.
fn reads_addend(
    addend: Option<f32>,
    inputs: &[usize],
    shapes: &[[usize; 3]],
    to: [usize; 3],
) -> bool {
    match (addend, inputs) {
        (None, [_]) => true,
        (Some(factor), &[_, added]) => factor.is_normal() && factor > 0.0 && shapes[added] == to,
        _ => false,
    }
}

fn is_linear(from: [usize; 3], to: [usize; 3], [outputs, each]: [usize; 2]) -> bool {
    each == from.iter().product::<usize>() && to == [outputs, 1, 1]
}

fn read_factors(file: &mut Reader<'_>, layer: usize) -> Result<[f32; 2], FileError> {
    let factors = file.reals(layer, "the factors")?;
    factors.try_into().map_err(|_| invalid(layer, "the factors"))
}

fn read_addend(file: &mut Reader<'_>, layer: usize) -> Result<Option<f32>, FileError> {
    match file.reals(layer, "the addend")?[..] {
        [] => Ok(None),
        [factor] => Ok(Some(factor)),
        _ => Err(invalid(layer, "the addend")),
    }
}

fn read_pooling(file: &mut Reader<'_>, layer: usize) -> Result<Pooling, FileError> {
    let [pooling] = file.array("a pooling")?;
    match pooling {
        0 => Ok(Pooling::Maximum),
        1 => Ok(Pooling::MeanOfImage),
        2 => Ok(Pooling::MeanWithPadding),
        _ => Err(invalid(layer, "the pooling")),
    }
}

fn read_float(
    file: &mut Reader<'_>,
    layer: usize,
    from: [usize; 3],
    to: [usize; 3],
) -> Result<(Reason, Work), FileError> {
    let [reason] = file.array("a reason")?;
    let reason = match reason {
        0 => Reason::NoInt8Form,
        1 => {
            let channel = file.number("a channel")?;
            Reason::Overflow { channel, sum: i64::from_le_bytes(file.array("a sum")?) }
        }
        2 => Reason::Kept,
        3 => Reason::Tail,
        _ => return Err(invalid(layer, "the reason")),
    };
    let [kind] = file.array("a kind")?;
    let work = match kind {
        0 => {
            let geometry = file.window(layer, from, to)?;
            let weights = file.reals(layer, "the weights")?;
            let bias = file.reals(layer, "the biases")?;
            Work::Convolution { geometry, weights, bias, addend: read_addend(file, layer)? }
        }
        1 => Work::Add { factors: read_factors(file, layer)? },
        2 => {
            let geometry = file.window(layer, from, to)?;
            Work::Pool { geometry, pooling: read_pooling(file, layer)? }
        }
        3 => {
            let weights = file.reals(layer, "the weights")?;
            Work::Linear { weights, bias: file.reals(layer, "the biases")? }
        }
        4 => Work::Function(read_program(file, layer)?),
        5 => Work::Multiply,
        6 => Work::Concatenate,
        7 => Work::Softmax,
        _ => return Err(invalid(layer, "the kind")),
    };
    Ok((reason, work))
}

fn read_program(file: &mut Reader<'_>, layer: usize) -> Result<Function, FileError> {
    let wrong = || invalid(layer, "the function");
    let count = file.number("a function")?;
    if count > Function::MOST_LINES {
        return Err(wrong());
    }
    let mut lines = Vec::new();
    for _ in 0..count {
        let [kind] = file.array("a function")?;
        lines.push(match kind {
            0 => Line::X,
            1 => {
                let value = f32::from_le_bytes(file.array("a constant")?);
                Line::Constant(value)
            }
            2 => {
                let [code] = file.array("an operation")?;
                let operation = *Unary::ALL.get(usize::from(code)).ok_or_else(wrong)?;
                Line::Unary(operation, file.number("an operand")?)
            }
            3 => {
                let [code] = file.array("an operation")?;
                let operation = *Binary::ALL.get(usize::from(code)).ok_or_else(wrong)?;
                Line::Binary(operation, file.numbers("the operands")?)
            }
            4 => Line::Choose(file.numbers("the operands")?),
            _ => return Err(wrong()),
        });
    }
    Function::try_from_lines(lines).ok_or_else(wrong)
}
