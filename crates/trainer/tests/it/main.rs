//! Tests of the public API: one file per subject.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod before_update;
mod small;

mod captured;
mod checkpoint;
mod dense;
mod device_reads;
mod evaluate;
mod evaluate_on_ranks;
mod gradients;
mod lr_find;
mod masks_and_images;
mod products;
mod ranks;
mod read_together;
mod recompute;
mod rehearse;
mod run;
mod scikit_learn;
mod served;
mod step;
mod task;
mod transfer;
mod values;
mod weights;
