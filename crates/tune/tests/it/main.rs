//! Tests of the public interface.

mod counts;
mod search;
mod studies;
