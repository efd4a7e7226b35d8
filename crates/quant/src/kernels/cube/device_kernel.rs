//! The trait of a layer's kernel on a device.

use std::fmt;

use cubecl::prelude::Client;

use super::convolution::CubeConvolution;
use super::reason::DeviceReason;
use super::words::Words;

/// The int8 kernel of a layer on a device, with its weights there.
pub(crate) trait DeviceKernel: fmt::Debug + Send + Sync {
    /// Computes the codes `y` of some samples, at least one, from the codes of its inputs.
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize);

    /// The matrix product, if it is one, whose sums can be read.
    fn product(&self) -> Option<&CubeConvolution> {
        None
    }
}

/// The kernel of a layer, or why there is none.
pub(crate) type Uploaded = Result<Box<dyn DeviceKernel>, DeviceReason>;
