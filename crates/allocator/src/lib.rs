#![doc = include_str!("../README.md")]

mod blocks;
mod reuse;

pub use reuse::ReuseBlocks;
