//! A quantized model as the bytes of one file: version, length, hash, then every layer.

use sha2::{Digest, Sha256};
use updraft_conv::slices::{ConvGeometry, ConvShape, GeometryError};

use super::layer::{QuantizedLayer, Source};
use super::model::{QuantizedModel, assign_slots};
use crate::kernels::Pooling;
use crate::scheme::{ActivationScheme, SchemeError};
use crate::weights::{QuantizedWeights, WeightError};

/// The first bytes of every file.
const MAGIC: [u8; 8] = *b"UPDRAFTQ";

/// The version that this code writes, and the only one that it reads.
const VERSION: u32 = 1;

/// Numbers that one image of a tensor may have: far above any network, far below what overflows.
const MOST: usize = 1 << 31;

/// Why bytes are no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The first bytes are another format's.
    #[error("the bytes do not begin as a quantized model of updraft does; is it another file?")]
    Foreign,
    /// Another version.
    #[error(
        "the file has version {version}, this program reads {VERSION}; quantize the model anew"
    )]
    Version {
        /// The file's version.
        version: u32,
    },
    /// The bytes end early.
    #[error("the file ends at byte {at}, within {what}; it was cut, copy it again")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// How many bytes there are.
        at: usize,
    },
    /// Bytes follow where none should.
    #[error("{extra} bytes follow the model; it is damaged, copy it again")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// The bytes are not those that were written.
    #[error("the file's hash does not fit its bytes; it is damaged, copy it again")]
    Hash,
    /// A part has a value that no model has.
    #[error("layer {layer}: {what} is not one of a model")]
    Value {
        /// The layer, counted from 0.
        layer: usize,
        /// What was read.
        what: &'static str,
    },
    /// A tensor's scheme.
    #[error("tensor {tensor}")]
    Scheme {
        /// The tensor; 0 is the input.
        tensor: usize,
        /// What is wrong.
        #[source]
        source: SchemeError,
    },
    /// A layer's weights.
    #[error("layer {layer}")]
    Weights {
        /// The layer, counted from 0.
        layer: usize,
        /// What is wrong.
        #[source]
        source: WeightError,
    },
    /// A layer's window.
    #[error("layer {layer}")]
    Geometry {
        /// The layer, counted from 0.
        layer: usize,
        /// What is wrong.
        #[source]
        source: GeometryError,
    },
}

impl QuantizedModel {
    /// The model as the bytes of a file. The same model gives the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Writer::default();
        body.number(self.layers.len());
        for (shape, scheme) in self.shapes.iter().zip(&self.schemes) {
            body.numbers(shape);
            body.0.extend(scheme.scale().to_le_bytes());
            body.0.push(scheme.zero_point());
        }
        for layer in &self.layers {
            body.bytes(layer.name.as_bytes());
            body.0.push(layer.is_rectified.into());
            body.number(layer.inputs.len());
            body.numbers(&layer.inputs);
            match &layer.source {
                Source::Convolution { geometry, weights } => {
                    body.0.push(0);
                    body.window(geometry);
                    body.weights(weights);
                }
                Source::Add => body.0.push(1),
                Source::Pool { geometry, pooling } => {
                    body.0.push(2);
                    body.window(geometry);
                    body.0.push(match pooling {
                        Pooling::Maximum => 0,
                        Pooling::MeanOfImage => 1,
                        Pooling::MeanWithPadding => 2,
                    });
                }
                Source::Linear { weights } => {
                    body.0.push(3);
                    body.weights(weights);
                }
            }
        }
        let mut file = MAGIC.to_vec();
        file.extend(VERSION.to_le_bytes());
        file.extend((body.0.len() as u64).to_le_bytes());
        file.extend(Sha256::digest(&body.0));
        file.extend(body.0);
        file
    }

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
    let count = file.number("the number of layers")?;
    let invalid = |layer, what| FileError::Value { layer, what };
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
    for layer in 0..count {
        let name = file.bytes("a name")?.to_vec();
        let name = String::from_utf8(name).map_err(|_| invalid(layer, "the name"))?;
        let [rectified] = file.array("a flag")?;
        if rectified > 1 {
            return Err(invalid(layer, "the rectifier"));
        }
        let inputs = match file.number("the number of inputs")? {
            1 => file.numbers::<1>("an input")?.to_vec(),
            2 => file.numbers::<2>("the inputs")?.to_vec(),
            _ => return Err(invalid(layer, "the number of inputs")),
        };
        if inputs.iter().any(|&input| input > layer) {
            return Err(invalid(layer, "an input"));
        }
        let [from, to] = [shapes[inputs[0]], shapes[layer + 1]];
        let scheme = schemes[inputs[0]];
        let [kind] = file.array("a kind")?;
        let source = match kind {
            0 => {
                let geometry = file.window(layer, from, to)?;
                let weights = file.weights(layer, scheme)?;
                Source::Convolution { geometry, weights }
            }
            1 => Source::Add,
            2 => {
                let geometry = file.window(layer, from, to)?;
                let [pooling] = file.array("a pooling")?;
                let pooling = match pooling {
                    0 => Pooling::Maximum,
                    1 => Pooling::MeanOfImage,
                    2 => Pooling::MeanWithPadding,
                    _ => return Err(invalid(layer, "the pooling")),
                };
                Source::Pool { geometry, pooling }
            }
            3 => Source::Linear { weights: file.weights(layer, scheme)? },
            _ => return Err(invalid(layer, "the kind")),
        };
        let is_whole = match &source {
            Source::Convolution { .. } => inputs.len() == 1,
            Source::Add => inputs.len() == 2 && shapes[inputs[1]] == from && from == to,
            Source::Pool { geometry, pooling } => {
                let groups = geometry.shape().groups;
                let keeps = schemes[layer + 1] == scheme && rectified == 0;
                inputs.len() == 1
                    && geometry.shape().channels == [groups; 2]
                    && (*pooling != Pooling::Maximum || keeps)
            }
            Source::Linear { weights } => {
                inputs.len() == 1
                    && weights.each() == from.iter().product::<usize>()
                    && to == [weights.channels(), 1, 1]
            }
        };
        if !is_whole {
            return Err(invalid(layer, "the shape of its parts"));
        }
        let is_rectified = rectified == 1;
        let built = QuantizedLayer::try_from_source(
            name,
            source,
            inputs,
            is_rectified,
            layer + 1,
            &schemes,
            &shapes,
        );
        layers.push(built.map_err(|source| FileError::Weights { layer, source })?);
    }
    let extra = file.bytes.len() - file.at;
    if extra > 0 {
        return Err(FileError::Trailing { extra });
    }
    let (slots, slot_lens) = assign_slots(&layers, &shapes);
    Ok(QuantizedModel { layers, shapes, schemes, slots, slot_lens })
}

/// Numbers in little endian.
#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: usize) {
        let number = u32::try_from(number).expect("checked shapes stay below 32 bits");
        self.0.extend(number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[usize]) {
        numbers.iter().for_each(|&number| self.number(number));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend(bytes);
    }

    fn window(&mut self, geometry: &ConvGeometry) {
        let ConvShape { groups, kernel, stride, padding, dilation, .. } = *geometry.shape();
        self.number(groups);
        [kernel, stride, padding, dilation].iter().for_each(|both| self.numbers(both));
    }

    fn weights(&mut self, weights: &QuantizedWeights) {
        self.number(weights.channels());
        self.number(weights.each());
        weights.scales().iter().for_each(|scale| self.0.extend(scale.to_le_bytes()));
        weights.bias().iter().for_each(|bias| self.0.extend(bias.to_le_bytes()));
        self.0.extend(weights.values().iter().map(|&value| value as u8));
    }
}

/// Reads what [`Writer`] writes; nothing is taken that is not there.
#[derive(Debug)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], FileError> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(FileError::Truncated { what, at: self.bytes.len() })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FileError> {
        Ok(self.take(N, what)?.try_into().expect("as many bytes as were asked for"))
    }

    fn number(&mut self, what: &'static str) -> Result<usize, FileError> {
        Ok(u32::from_le_bytes(self.array(what)?) as usize)
    }

    fn numbers<const N: usize>(&mut self, what: &'static str) -> Result<[usize; N], FileError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number(what)?;
        }
        Ok(numbers)
    }

    fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], FileError> {
        let len = self.number(what)?;
        self.take(len, what)
    }

    /// A window over images of one shape that gives images of another.
    fn window(
        &mut self,
        layer: usize,
        from: [usize; 3],
        to: [usize; 3],
    ) -> Result<ConvGeometry, FileError> {
        let groups = self.number("groups")?;
        let [kernel, stride, padding, dilation] = [
            self.numbers("a kernel")?,
            self.numbers("a stride")?,
            self.numbers("a padding")?,
            self.numbers("a dilation")?,
        ];
        let shape = ConvShape::new(1, [from[0], to[0]], [from[1], from[2]], kernel);
        let shape = ConvShape { groups, stride, padding, dilation, ..shape };
        let geometry =
            ConvGeometry::try_new(shape).map_err(|source| FileError::Geometry { layer, source })?;
        if geometry.output() == [to[1], to[2]] {
            Ok(geometry)
        } else {
            Err(FileError::Value { layer, what: "the shape" })
        }
    }

    fn weights(
        &mut self,
        layer: usize,
        input: ActivationScheme,
    ) -> Result<QuantizedWeights, FileError> {
        let channels = self.number("the number of channels")?;
        let each = self.number("the number of weights")?;
        let too_many = FileError::Value { layer, what: "the number of weights" };
        let all = channels.checked_mul(each).ok_or(too_many)?;
        let fours = |bytes: &'a [u8]| {
            bytes.chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]])
        };
        let scales =
            fours(self.take(4 * channels, "the scales")?).map(f32::from_le_bytes).collect();
        let bias = fours(self.take(4 * channels, "the biases")?).map(i32::from_le_bytes).collect();
        let values = self.take(all, "the weights")?.iter().map(|&value| value as i8).collect();
        QuantizedWeights::try_new(values, scales, bias, input)
            .map_err(|source| FileError::Weights { layer, source })
    }
}
