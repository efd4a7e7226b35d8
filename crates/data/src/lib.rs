#![doc = include_str!("../README.md")]

mod augment;
mod batch;
mod buffer_pool;
#[cfg(feature = "burn-dataloader")]
mod burn_loader;
mod cache;
mod cells;
mod center_crop;
mod components;
mod contents;
mod decode;
mod digest;
#[cfg(any(all(test, feature = "burn"), feature = "burn-dataloader"))]
mod epochs;
mod error;
mod fault;
mod file_identity;
mod file_state;
mod file_threads;
mod guard;
mod image;
mod item_hash;
mod jpeg;
mod kernels;
mod known_contents;
mod link_loop;
mod parts;
mod pixels;
mod progress;
mod random;
mod raster;
mod regular_file;
mod resample;
mod sample;
mod sliding;
mod source;
mod split;
mod stream;
mod table;
mod tensor_batch;
#[cfg(feature = "burn")]
mod tensors;
mod text_encoding;
mod tiff_pages;
mod trace;
mod volume;
mod xxh64;

// Where samples come from.
pub use parts::stratified_parts;
pub use source::{
    CenterCropped, CifarFiles, CifarLabels, CifarPart, CifarRecords, Cue, FileSample, FileTarget,
    Formula, GeneratedConfig, GeneratedImages, IdxArray, IdxValues, ImageFolder, ImageSamples,
    ImageSource, InMemoryImages, InMemorySamples, InMemoryTensors, PassedOver, Relabeled, Resized,
    SampleFiles, SampleSource, SampleSubset, Subset, TarImages, Targets, formula_samples,
    interaction_csv, label_csv, read_cifar,
};
pub use split::{Split, stratified_sample, stratified_split};

// Volumes, whole or region by region, and patches of them.
pub use volume::{
    ChannelStatistics, Foreground, JoinedChannels, OpenConfig, PageAxis, PatchConfig, PngVolume,
    Region, ScaledVolume, TiffCompression, TiffVolume, TiffWriteConfig, Volume, VolumeManifest,
    VolumePair, VolumePart, VolumePatches, VolumeRow, VolumeScale, VolumeSource, VolumeSpec,
    VolumeTarget, VolumeWindows, VolumeWriter, open_volume, tiff_software, volume_statistics,
    write_volume,
};

// Sliding-window inference on whole volumes.
pub use sliding::{
    Blend, ModelError, Padding, PredictConfig, Predicted, PredictionStart, Reduction,
    SlidingWindow, WindowBatch, WindowModel, WindowProgress,
};

// Generated images of cells.
pub use cells::{CellFiles, CellImages, CellsConfig, draw_cells, write_cells};

// Masks as components.
pub use components::{Component, ComponentConfig, Components, Connectivity, label_components};

// Tables and their encoding.
pub use table::{
    CategoryEncoding, ColumnEncoder, ColumnKind, ColumnRules, ColumnSchema, Delimiter, Doubt,
    DoubtfulColumn, EncodedRows, EncodedTable, FeatureEncoder, FitConfig, InferredColumns,
    NumberScale, RowConfig, RowEncoder, Scaling, StrayValue, Table, TableBlocks, TableEncoder,
    TableError, TableSchema, TableWriter, UntypedColumn, UntypedTable, Vocabulary,
};

// Samples and their augmentation.
pub use augment::{
    AlternatingFlip, Augment, Axis, Canvas, ColorJitter, Crop, Elastic, Flip, HorizontalFlip,
    Intensity, MixUp, Noise, Normalize, NormalizeChannels, PictureCrop, PixelsMut, QuarterTurn,
    RandomResizedCrop, Rotate, Translate, TranslateDepth, Zoom,
};
pub use decode::decode;
pub use image::Image;
pub use pixels::{PixelType, Pixels};
pub use raster::{Raster, RasterSpec};
pub use sample::{Sample, SampleTarget};

// Files.
pub use file_identity::FileIdentity;
pub use link_loop::{is_link_loop, system_message};
pub use regular_file::read_regular;
pub use text_encoding::{TextEncoding, utf8_fault};

// Reproducibility.
pub use contents::contents_digest;
pub use digest::Digest;
pub use item_hash::ItemHash;
pub use known_contents::{KnownContents, expect_contents};
pub use random::Random;

// Batches of samples, epoch by epoch.
pub use batch::{ImageBatch, Mix};
#[cfg(feature = "burn-dataloader")]
pub use burn_loader::BurnLoader;
pub use stream::{
    Ahead, BatchConfig, Collate, Draw, Epoch, ImageCollate, ImageFinish, LastBatch, Loader,
    LoaderConfig, LoaderState, Order, Part, RasterFinish, SampleCollate, SampleConfig,
    StreamConfig, Waits, Workers,
};
pub use tensor_batch::{TargetBatch, TensorBatch};
#[cfg(feature = "burn")]
pub use tensors::{
    DeviceSamples, Draws, ResidentBatch, ResidentEpoch, ResidentSet, ResidentTensors, Views,
    index_tensor,
};

// Caches.
pub use cache::{CacheUse, CachedImages, CachedSamples, FileImages, FileSamples};

// Progress and errors.
pub use error::{DataError, DecodeError, FormatError, Place, VolumeError};
pub use fault::{FaultPolicy, Quarantined, SampleFault};
pub use progress::{Progress, ProgressUnit};
