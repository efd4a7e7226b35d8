#![doc = include_str!("../README.md")]

mod blocks;
mod mapping;
mod reuse;

pub use reuse::ReuseBlocks;
