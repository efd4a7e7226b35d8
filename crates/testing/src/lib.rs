//! Tolerances, gradient checks and devices for the tests of the other crates.
#![doc = include_str!("../README.md")]

mod closeness;
#[cfg(feature = "cube")]
mod cube_launches;
#[cfg(all(feature = "cube", feature = "wgpu"))]
mod cube_recorder;
#[cfg(feature = "burn")]
mod devices;
#[cfg(feature = "burn")]
mod gradient;
mod normal;
mod scattered;
pub mod tolerance;

// Making and comparing numbers.
pub use closeness::{Numbers, assert_close, assert_close_to_largest, relative_error};
pub use normal::normal;
pub use scattered::{scattered, scattered_to};
pub use tolerance::Tolerance;

// Devices and gradients of burn.
#[cfg(feature = "cube")]
pub use cube_launches::launches;
#[cfg(all(feature = "cube", feature = "wgpu"))]
pub use cube_recorder::{RecordedLaunch, recorded, recording_client};
#[cfg(feature = "burn")]
pub use devices::{Alone, Devices, IntoDevices, alone, autodiff_devices, devices, gpus};
#[cfg(feature = "burn")]
pub use gradient::{
    ParameterGradient, gradient_check, in_dtype, parameter_gradient_check, parameter_gradients,
};
