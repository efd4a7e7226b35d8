//! The dtype of sums over many values.

use burn::tensor::{DType, FloatDType};

/// f64 for f64, else f32.
pub(crate) fn wide(dtype: DType) -> FloatDType {
    match dtype {
        DType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    }
}
