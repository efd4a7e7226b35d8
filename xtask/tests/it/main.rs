//! Tests of documents and commands of the workspace.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documents;
mod one_build;
mod outside;
mod workspace;
