//! The int8 kernels for GPUs, in CubeCL, which compiles them for the device.
//!
//! Codes are `[samples, pixels, words]`, four channels in each word of 32 bits, the first channel in
//! the lowest byte; shaders have no buffers of bytes. Bytes beyond the last channel are not
//! specified, and no result depends on them. Products are `dp4a`: four multiply-adds of signed
//! bytes, an instruction in CUDA and in Vulkan's own shader language, and multiply-adds of integers
//! elsewhere. Sums are in 32 bits and are converted to codes by operations on integers alone, so that
//! they have the bits of the kernels for CPUs on every device, whatever its rounding of f32 is.

mod blend;
mod channels;
mod convolution;
mod copies;
mod depthwise;
mod device_kernel;
#[cfg(feature = "every-kernel")]
mod every_kernel;
mod layout;
mod maximum;
mod mean;
#[cfg(test)]
mod on_devices;
mod pairs;
mod reason;
mod rounding;
mod table;
mod tiles;
mod window;
mod words;

pub(crate) use blend::CubeBlend;
pub(crate) use convolution::{CubeConvolution, CubeProduct};
pub(crate) use copies::{CubeCopies, Places};
pub(crate) use depthwise::CubeDepthwise;
pub(crate) use device_kernel::{DeviceKernel, Uploaded};
#[cfg(feature = "every-kernel")]
pub use every_kernel::every_kernel;
pub(crate) use layout::{packed, unpacked, words_of};
pub(crate) use maximum::CubeMaximum;
pub(crate) use mean::CubeMean;
pub(crate) use pairs::CubePairs;
pub use reason::DeviceReason;
pub(crate) use table::CubeTable;
pub(crate) use tiles::{MOST_UNITS, runs_on};
pub(crate) use words::Words;
