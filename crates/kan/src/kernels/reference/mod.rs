//! The same computations in f64, written as the definitions.

mod basis;
mod conv;
mod layer;

pub use basis::{bases, slopes};
pub use conv::{conv_backward, conv_forward};
#[cfg_attr(
    not(feature = "reference"),
    expect(unused_imports, reason = "named by callers only")
)]
pub use layer::Derivatives;
pub use layer::{Parameters, backward, forward};
