//! Images and volumes with an image or a mask as the target, or without one: the keys, the data and
//! the losses that tasks on them share.

pub(super) mod augment;
mod cells;
pub(super) mod channel_losses;
pub(super) mod comparison;
pub(super) mod data;
pub(super) mod data_plan;
mod manifest;
pub(super) mod objective;
pub(super) mod on_ranks;
pub(super) mod prediction_files;
