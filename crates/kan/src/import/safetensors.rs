//! Weights from the bytes of a safetensors file.

use burn::tensor::{DType, Device, TensorData};
use safetensors::{Dtype, SafeTensors};

use super::error::ImportError;
use crate::kernels::Activation;
use crate::layer::{BasisKan, Kan};

impl Kan {
    /// [`import`](Self::import) from the bytes of a safetensors file.
    ///
    /// # Errors
    /// [`ImportError`] if the bytes are no such file, or as `import` says.
    pub fn from_safetensors(
        bytes: &[u8],
        activation: Activation,
        device: &Device,
    ) -> Result<Self, ImportError> {
        Self::import(tensors(bytes)?, activation, device)
    }
}

impl BasisKan {
    /// [`import`](Self::import) from the bytes of a safetensors file.
    ///
    /// # Errors
    /// [`ImportError`] if the bytes are no such file, or as `import` says.
    pub fn from_safetensors(
        bytes: &[u8],
        activation: Activation,
        device: &Device,
    ) -> Result<Self, ImportError> {
        Self::import(tensors(bytes)?, activation, device)
    }
}

fn tensors(bytes: &[u8]) -> Result<Vec<(String, TensorData)>, ImportError> {
    let file = SafeTensors::deserialize(bytes).map_err(ImportError::Safetensors)?;
    let tensors = file.iter().filter_map(|(name, view)| {
        // No layer has a tensor of another kind; it is reported as missing.
        let dtype = match view.dtype() {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            _ => return None,
        };
        let data = TensorData::from_bytes_vec(view.data().to_vec(), view.shape().to_vec(), dtype);
        Some((name.to_owned(), data))
    });
    Ok(tensors.collect())
}
