#![doc = include_str!("../README.md")]

mod augment;
mod batch;
mod decode;
mod digest;
mod error;
mod fault;
mod guard;
mod image;
mod jpeg;
mod progress;
mod random;
mod source;
mod split;
mod stream;
mod trace;

// Where samples come from.
pub use source::{
    Cue, GeneratedConfig, GeneratedImages, ImageFolder, ImageSource, InMemoryImages, Relabeled,
    Subset, TarImages,
};
pub use split::{Split, stratified_split};

// One image, and what is done to it.
pub use augment::{Augment, Canvas, HorizontalFlip, Normalize, Translate};
pub use decode::decode;
pub use image::Image;

// Batches of samples, epoch by epoch.
pub use batch::ImageBatch;
pub use stream::{
    Collate, Draw, Epoch, ImageCollate, LastBatch, Loader, LoaderConfig, LoaderState, Order,
    StreamConfig, Waits, Workers,
};

// How far, and what goes wrong.
pub use error::{DataError, DecodeError, Place};
pub use fault::{FaultPolicy, Quarantined, SampleFault};
pub use progress::{Progress, ProgressUnit};
