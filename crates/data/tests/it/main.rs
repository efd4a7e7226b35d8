//! What the crate promises, from the outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;

mod archive;
mod binary;
mod cifar10;
mod custom;
mod faults;
mod folder;
mod generated;
mod policy;
mod stream;
mod table;
