//! From a trained network to one in eight bits, with all that is said of it.

mod batches;
mod calibration;
mod latency;
mod methods;
mod settings;
mod table;
mod work;

pub(crate) use settings::QuantizeSettings;
pub(crate) use work::{FILES, Quantizing, steps};
