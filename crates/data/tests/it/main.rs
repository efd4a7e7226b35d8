//! What the crate promises, from the outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;

mod any_stream;
mod archive;
mod augment;
mod binary;
#[cfg(feature = "burn-dataloader")]
mod burn_loader;
mod cached;
mod cached_changes;
mod cached_samples;
mod changed_contents;
mod cifar10;
mod components;
mod custom;
mod damage;
mod faults;
mod folder;
mod generated;
#[cfg(unix)]
mod hard_links;
mod image_manifests;
#[cfg(feature = "burn")]
mod large;
mod long_fields;
mod manifest;
mod moving;
mod parity;
mod patches;
mod photographs;
#[cfg(unix)]
mod pipes;
mod policy;
mod ready;
#[cfg(feature = "burn")]
mod resident;
mod sample_files;
mod samples;
#[cfg(feature = "burn")]
mod sliding;
mod stream;
mod table;
mod volumes;
