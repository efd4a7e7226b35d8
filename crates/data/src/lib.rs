#![doc = include_str!("../README.md")]

mod augment;
mod batch;
mod cache;
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
mod table;
mod tensor_batch;
mod trace;

// Where samples come from.
pub use source::{
    CifarLabels, CifarPart, CifarRecords, Cue, GeneratedConfig, GeneratedImages, IdxArray,
    IdxValues, ImageFolder, ImageSource, InMemoryImages, InMemoryTensors, Relabeled, Subset,
    TarImages, Targets, read_cifar,
};
pub use split::{Split, stratified_split};

// Tables, and what a model sees of them.
pub use table::{
    ColumnEncoder, ColumnKind, ColumnSchema, Delimiter, EncodedTable, FitConfig, Table,
    TableEncoder, TableError, TableSchema, Vocabulary,
};

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
pub use tensor_batch::{TargetBatch, TensorBatch};

// What was prepared before.
pub use cache::CacheUse;

// How far, and what goes wrong.
pub use error::{DataError, DecodeError, FormatError, Place};
pub use fault::{FaultPolicy, Quarantined, SampleFault};
pub use progress::{Progress, ProgressUnit};
