//! The passes of a layer on tensor cores: basis values, weights and gradients are rounded to bf16 or
//! f16, and their products summed in f32.
//!
//! Positions and bases are computed in f32 and rounded once. The weights are laid out before each
//! pass, multiplied by their factors and padded with zeros to whole tiles.

mod forward;
#[cfg(feature = "autodiff")]
mod input_gradient;
mod pack;
#[cfg(feature = "autodiff")]
mod weight_gradient;

use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

pub(super) use forward::forward;
#[cfg(feature = "autodiff")]
pub(super) use input_gradient::input_gradient;
pub(super) use pack::{Packing, pack};
#[cfg(feature = "autodiff")]
pub(super) use weight_gradient::weight_gradient;

use super::layer::CubeLayer;
use crate::kernels::CubeForm;
use crate::kernels::cube_cost::tensor_cores::{DEPTH, FRAGMENT, PLANE};

/// Shared memory of the largest kernel, the input gradient.
const SHARED_BYTES: usize = 49152;

/// The numbers of a form's products; `None` for the forms without tensor cores.
pub(super) fn numbers(form: CubeForm) -> Option<ElemType> {
    match form {
        CubeForm::Bf16 => Some(ElemType::Float(FloatKind::BF16)),
        CubeForm::F16 => Some(ElemType::Float(FloatKind::F16)),
        _ => None,
    }
}

/// Whether a device multiplies matrices of these numbers, the bases have a closed form, and the rows
/// of a layer fit into a chunk.
pub(super) fn is_for(client: &Client, layer: CubeLayer, numbers: ElemType) -> bool {
    let properties = client.properties();
    let hardware = &properties.hardware;
    let sums = ElemType::Float(FloatKind::F32);
    let is_ours = |config: &cubecl::ir::features::MmaConfig| {
        let types = [config.a_type, config.b_type, config.cd_type];
        let sizes = [config.m, config.n, config.k];
        types == [numbers, numbers, sums] && sizes == [FRAGMENT; 3]
    };
    layer.is_closed()
        && layer.rows() as u32 <= DEPTH
        && hardware.max_shared_memory_size >= SHARED_BYTES
        && (hardware.plane_size_min, hardware.plane_size_max) == (PLANE, PLANE)
        && properties.features.matmul.cmma.iter().any(is_ours)
}
