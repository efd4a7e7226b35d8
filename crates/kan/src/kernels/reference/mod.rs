//! The same numbers in f64, by the definitions, slow and obvious.

mod basis;
mod layer;

pub use basis::{bases, slopes};
#[cfg_attr(
    not(feature = "reference"),
    expect(unused_imports, reason = "named by callers only")
)]
pub use layer::Derivatives;
pub use layer::{Parameters, backward, forward};
