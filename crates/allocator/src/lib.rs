#![doc = include_str!("../README.md")]

#[cfg_attr(not(unix), path = "no_pages.rs")]
mod pages;
mod ranges;
mod reuse;

pub use reuse::ReuseBlocks;
