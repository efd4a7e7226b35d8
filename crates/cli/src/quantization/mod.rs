//! From a trained network to one in eight bits, with what that costs.

mod batches;
mod latency;
mod methods;
mod settings;
mod table;
mod work;

pub(crate) use settings::QuantizeSettings;
pub(crate) use work::{Quantizing, steps};
