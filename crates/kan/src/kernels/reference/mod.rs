//! The same numbers in f64, by the definitions, slow and obvious.

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
