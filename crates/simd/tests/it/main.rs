//! What a user of the crate sees.

mod vectors;
