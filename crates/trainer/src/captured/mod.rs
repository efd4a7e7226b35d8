//! Forward passes that are recorded once on a device and replayed.

mod forward;
mod model;
mod reason;
mod recording;
mod values;

pub use forward::CapturedForward;
pub use model::{CaptureReport, CaptureSettings, CapturedModel};
pub use reason::{CapturedCallError, NotCaptured, TensorForm};
