//! The promises that documents and commands make about the workspace.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documents;
mod one_build;
mod outside;
mod workspace;
