//! The runner from the outside.

mod refusal;
