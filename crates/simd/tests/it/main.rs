//! What a user of the crate sees.

mod int8;
mod vectors;
