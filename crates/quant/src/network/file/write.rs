//! From a model to bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, View};
use sha2::{Digest, Sha256};

use super::header::{Header, Input, Layer, LowBits, Output};
use super::{HASH, KEY, VERSION};
use crate::network::layer::Form;
use crate::network::model::QuantizedModel;
use crate::network::plan::Reason;
use crate::operation::Parameters;

impl QuantizedModel {
    /// The model as the bytes of a file. The same model gives the same bytes.
    ///
    /// The file is in the safetensors format: `layer0.weights`, `.scales` and `.bias` are the
    /// parameters of a layer in the order of the graph, the metadata has everything else as JSON.
    /// Weights of fewer than eight bits are packed, with the `.multipliers` of groups and the
    /// `.zeros` of asymmetric codes.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the header and the tensors are consistent")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut tensors = BTreeMap::new();
        let mut layers = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let name = |part: &str| format!("layer{index}.{part}");
            let (mut in_f32, mut low_bits) = (None, None);
            if let Some((weights, coding)) = layer.form.coded_weights() {
                let (channels, each) = (weights.channels(), weights.each());
                let tensor = match coding {
                    None => {
                        let values = weights.values().iter().map(|v| v.to_le_bytes());
                        Tensor::new(Dtype::I8, &[channels, each], values)
                    }
                    Some(coding) => {
                        low_bits = Some(LowBits { format: coding.format, each });
                        let bytes = |values: Vec<u8>, shape: &[usize]| {
                            Tensor::new(Dtype::U8, shape, values.into_iter().map(|v| [v]))
                        };
                        let groups = [channels, coding.format.groups(each)];
                        if coding.format.group().is_some() {
                            let multipliers = bytes(coding.multipliers.clone(), &groups);
                            tensors.insert(name("multipliers"), multipliers);
                        }
                        if coding.format.is_asymmetric() {
                            tensors.insert(name("zeros"), bytes(coding.zeros.clone(), &groups));
                        }
                        bytes(coding.pack(weights.values()), &[channels, coding.row()])
                    }
                };
                tensors.insert(name("weights"), tensor);
                let scales = weights.scales().iter().map(|scale| scale.to_le_bytes());
                tensors.insert(name("scales"), Tensor::new(Dtype::F32, &[channels], scales));
                let bias = weights.bias().iter().map(|bias| bias.to_le_bytes());
                tensors.insert(name("bias"), Tensor::new(Dtype::I32, &[channels], bias));
            }
            match &layer.form {
                Form::WeightsOnly(_) => in_f32 = Some(Reason::WeightsOnly),
                Form::F32 { parameters, reason, int8: None, .. } => {
                    in_f32 = Some(*reason);
                    let Parameters { weights, bias } = parameters.as_ref();
                    if !bias.is_empty() {
                        let shape = [bias.len(), weights.len() / bias.len()];
                        let weights = weights.iter().map(|weight| weight.to_le_bytes());
                        tensors.insert(name("weights"), Tensor::new(Dtype::F32, &shape, weights));
                        let bias = bias.iter().map(|bias| bias.to_le_bytes());
                        tensors.insert(name("bias"), Tensor::new(Dtype::F32, &shape[..1], bias));
                    }
                }
                Form::F32 { .. } | Form::Int8(_) => {}
            }
            layers.push(Layer {
                name: layer.name.clone(),
                kind: layer.operation.kind().to_owned(),
                settings: layer.operation.settings(),
                inputs: layer.inputs.clone(),
                scheme: self.schemes[self.inputs.len() + index].into(),
                clip: layer.clip,
                is_zero: layer.is_zero,
                in_f32,
                low_bits,
            });
        }
        let inputs = self.inputs.iter().zip(&self.schemes);
        let outputs = self.outputs.iter();
        let header = Header {
            version: VERSION,
            calibrated: self.calibrated.clone(),
            joins_sums: self.joins_sums,
            speed_plans: self.speed_plans.clone(),
            inputs: inputs
                .map(|(port, &scheme)| Input { port: port.clone(), scheme: scheme.into() })
                .collect(),
            layers,
            outputs: outputs
                .map(|output| Output { port: output.port.clone(), tensor: output.tensor })
                .collect(),
        };
        let header = serde_json::to_string(&header).expect("numbers, texts and lists of them");
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.bytes.as_slice()));
        let hash = Tensor::new(Dtype::U8, &[32], hashed(&header, named).into_iter().map(|b| [b]));
        tensors.insert(HASH.to_owned(), hash);
        let metadata = HashMap::from([(KEY.to_owned(), header)]);
        safetensors::serialize(tensors, Some(metadata)).expect("every tensor has its numbers")
    }
}

/// The hash of a header and the parameters, these in the order of their names.
pub(super) fn hashed<'a>(
    header: &str,
    tensors: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(header);
    for (name, bytes) in tensors {
        hash.update(name);
        hash.update(bytes);
    }
    hash.finalize().into()
}

/// A tensor in little endian.
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn new<const N: usize>(
        dtype: Dtype,
        shape: &[usize],
        numbers: impl Iterator<Item = [u8; N]>,
    ) -> Self {
        Self { dtype, shape: shape.to_vec(), bytes: numbers.flatten().collect() }
    }
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
