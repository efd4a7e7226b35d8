//! Tests of the public API: one file per subject.

mod autocast;
mod clip;
#[cfg(feature = "cube")]
mod cube;
mod device_loss_scale;
mod device_norm;
mod limits;
mod norms;
mod scaling;
