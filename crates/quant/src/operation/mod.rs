//! The operations of a network, one per file: how it is recorded, fused, packed, run, saved and exported.

mod activation;
mod add;
mod affine;
mod concatenate;
mod convolution;
mod definition;
mod depth_to_space;
mod error;
mod extend;
mod float;
mod function;
#[cfg(feature = "burn")]
mod in_burn;
mod limits;
mod linear;
mod matrix_product;
mod multiply;
mod normalize;
mod pad;
mod parameters;
mod pooling;
mod rearrange;
mod registry;
mod resize;
mod shift;
mod softmax;
mod table;
mod window;

pub(crate) use activation::clipping;
pub(crate) use affine::pointwise;
#[cfg(feature = "burn")]
pub(crate) use definition::Recorded;
pub(crate) use definition::{
    Around, FloatJob, FloatSpace, Job, Kernel, Operation, PackError, Shapes, Work,
};
pub(crate) use depth_to_space::blocked;
pub use error::OperationError;
pub(crate) use float::{FloatKernel, LazyFloatKernel};
pub use function::{Binary, Function, Unary};
#[cfg(feature = "burn")]
pub(crate) use in_burn::{InBurn, data, is_pure};
#[cfg(feature = "burn")]
pub(crate) use normalize::{Normalize, Over};
pub(crate) use parameters::{Lens, Parameters};
pub(crate) use registry::read;
#[cfg(feature = "burn")]
pub(crate) use registry::record;
pub use window::Window;
pub(crate) use window::plane;
