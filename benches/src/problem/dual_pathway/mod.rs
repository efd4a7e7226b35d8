//! The dual-pathway network in evaluation, in f32 and in eight bits.

mod inference;
mod int8;
pub(crate) mod reference;

pub(crate) use self::inference::DualPathwayInference;
pub(crate) use self::int8::Int8DualPathway;
