//! Batches, tables and windows as tensors of burn.

mod encoded_table;
mod image_batch;
mod resident;
mod sliding_window;
mod tensor_batch;
mod views;

pub use resident::{
    DeviceSamples, Draws, ResidentBatch, ResidentEpoch, ResidentSet, ResidentTensors, index_tensor,
};
pub use views::Views;
