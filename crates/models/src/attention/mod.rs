//! Modules that weight the channels and the positions of feature maps.

mod bam;
mod cbam;
mod eca;
mod error;

pub use bam::{Bam, BamConfig};
pub use cbam::{Cbam, CbamConfig};
pub use eca::{Eca, EcaConfig};
pub use error::AttentionConfigError;
