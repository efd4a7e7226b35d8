//! The kernels of the expanded forms, whose matrix products are burn's: they write the values of all
//! bases and the weights as matrices, and turn the gradients of both into those of the layer.
//!
//! A row of the matrices is a basis of an input, or its base branch.

mod bases;
mod bias;
#[cfg(feature = "autodiff")]
mod contraction;
mod weights;

use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

pub(crate) use bases::write_bases;
pub(crate) use bias::add_bias;
#[cfg(feature = "autodiff")]
pub(crate) use contraction::contract;
pub(crate) use weights::pack_weights;
#[cfg(feature = "autodiff")]
pub(crate) use weights::unpack_gradients;

use super::buffers::Sizes;
use super::layer::CubeLayer;
use crate::kernels::CubeForm;
use crate::kernels::cube_cost::expanded::pairs_of_cube;

/// The samples and inputs of a layer that a launch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first_sample: u32,
    pub(crate) samples: u32,
    pub(crate) first_input: u32,
    pub(crate) inputs: u32,
}

impl Part {
    /// Pairs of a sample and an input.
    fn pairs(self) -> u32 {
        self.samples * self.inputs
    }
}

/// The numbers of the matrices of a form; `None` for those that expand no bases.
fn numbers(form: CubeForm) -> Option<ElemType> {
    let kind = match form {
        CubeForm::Expanded => FloatKind::F32,
        CubeForm::ExpandedBf16 => FloatKind::BF16,
        CubeForm::ExpandedF16 => FloatKind::F16,
        CubeForm::Sparse | CubeForm::Dense | CubeForm::Bf16 | CubeForm::F16 => return None,
    };
    Some(ElemType::Float(kind))
}

/// Whether a device computes in the numbers of a form, the bases have a closed form, and the rows of
/// a pair fit into the shared memory of a cube.
pub(super) fn is_for(client: &Client, layer: CubeLayer, form: CubeForm) -> bool {
    numbers(form).is_some_and(|numbers| {
        layer.is_closed()
            && pairs_of_cube(layer, numbers.size()) > 0
            && client.properties().supports_type(numbers)
    })
}

/// Whether a device has tensor cores for the numbers of a form.
pub(super) fn is_on_tensor_cores(client: &Client, form: CubeForm) -> bool {
    numbers(form).is_some_and(|numbers| {
        let configs = &client.properties().features.matmul.cmma;
        configs.iter().any(|config| [config.a_type, config.b_type] == [numbers; 2])
    })
}

/// The type of an index into buffers of the layer, and into one of this length.
fn address(sizes: Sizes, len: usize) -> AddressType {
    sizes.address.max(AddressType::from_len(len))
}
