//! Quantization of a trained network, with a report of its costs.

mod batches;
mod bits;
mod latency;
mod methods;
mod settings;
mod table;
mod work;

pub(crate) use settings::QuantizeFlags;
pub(crate) use work::{Quantizing, steps};
