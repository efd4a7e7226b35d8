//! Tests of the public interface.

mod search;
mod studies;
