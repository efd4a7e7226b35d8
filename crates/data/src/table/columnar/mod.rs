//! Files of columns, Parquet and Arrow IPC.

#[cfg(not(feature = "parquet"))]
mod disabled;
#[cfg(feature = "parquet")]
mod enabled;
mod format;
#[cfg(all(test, feature = "parquet"))]
mod tests;
#[cfg(feature = "parquet")]
mod values;

#[cfg(not(feature = "parquet"))]
pub(super) use disabled::read_columnar;
#[cfg(feature = "parquet")]
pub(super) use enabled::read_columnar;
pub(super) use format::Columnar;
