//! Linear layers whose products are of bf16: the values of all functions and the coefficients are
//! rounded, and sums are in f32.
//!
//! A unit for tiles of bf16 computes so many products in the time of one in f32 that those with
//! functions that are zero cost less than leaving them out. A vector holds one function of neighboring
//! inputs, so that the terms of a row lie side by side, `[vectors of inputs][terms][inputs]`.

mod backward;
mod coefficients;
mod forward;
mod memory;
mod plan;
mod scratch;
#[cfg(test)]
mod tests;

pub(super) use backward::backward;
pub(super) use forward::forward;
pub(super) use plan::Plan;
pub(crate) use scratch::Bf16Scratch;
