//! Errors of opening, reading or delivering data.
// tidy: long because it is one enum of all errors of data

use std::io;
use std::path::PathBuf;

use super::message::{cause_of, foreign, names};
use crate::error::{DecodeError, FormatError, Place, VolumeError};
use crate::link_loop::system_message;
use crate::table::TableError;

/// Why data cannot be opened, read or delivered.
///
/// The text contains the cause, so [`source`](std::error::Error::source) returns `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file or folder cannot be opened or listed.
    #[error("`{}` cannot be opened: {}", .path.display(), system_message(.cause))]
    Open {
        /// The requested value.
        path: PathBuf,
        /// The system's message.
        cause: io::Error,
    },
    /// A folder or archive has no class with images.
    #[error(
        "`{}` contains no images in class folders; expected `class/file` ending in {}",
        .path.display(),
        crate::source::EXTENSIONS.join(", ")
    )]
    NoClasses {
        /// The folder or archive.
        path: PathBuf,
    },
    /// The name of a file or folder is not UTF-8.
    #[error("`{}` has a name that is not UTF-8; rename it", .path.display())]
    NotUtf8 {
        /// The file or folder.
        path: PathBuf,
    },
    /// A class folder contains no image.
    #[error(
        "class folder `{}` contains no images; remove it, or add files ending in {}",
        .path.display(),
        crate::source::EXTENSIONS.join(", ")
    )]
    EmptyClass {
        /// The class folder.
        path: PathBuf,
    },
    /// An archive has an image outside of any class folder.
    #[error("`{}`: image `{entry}` is not in a class folder; expected `class/file`", .path.display())]
    Unclassified {
        /// The archive.
        path: PathBuf,
        /// The entry.
        entry: String,
    },
    /// The gzip stream is damaged or ends early.
    #[error(
        "`{}` is damaged or truncated and cannot be decompressed; download it again: {cause}",
        .path.display()
    )]
    Inflate {
        /// The archive.
        path: PathBuf,
        /// The decompressor's message.
        cause: io::Error,
    },
    /// The archive would not fit the memory it may use.
    #[error("`{}` inflates to more than {limit} bytes; unpack it to a .tar", .path.display())]
    InflatedTooLarge {
        /// The archive.
        path: PathBuf,
        /// The most bytes accepted.
        limit: u64,
    },
    /// The tar structure is damaged.
    #[error("`{}` is not a readable tar archive: {cause}", .path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// The tar archive is truncated.
    #[error("`{}` is truncated after {bytes} bytes of tar; download it again", .path.display())]
    ArchiveCut {
        /// The archive.
        path: PathBuf,
        /// Bytes of tar there are.
        bytes: u64,
    },
    /// A tar entry points out of the archive.
    #[error(
        "`{}`: entry `{entry}` is an absolute path or contains `..`; nothing was read",
        .path.display()
    )]
    UnsafePath {
        /// The archive.
        path: PathBuf,
        /// The entry.
        entry: String,
    },
    /// A tar entry is neither a plain file nor a folder.
    #[error("`{}`: entry `{entry}` is a link or special file; expected plain files", .path.display())]
    SpecialEntry {
        /// The archive.
        path: PathBuf,
        /// The entry.
        entry: String,
    },
    /// A sample's bytes cannot be read.
    #[error("{place} cannot be read: {}", system_message(.cause))]
    Read {
        /// The sample.
        place: Place,
        /// The system's message.
        cause: io::Error,
    },
    /// A file was replaced or written since it was first read. No [`FaultPolicy`](crate::FaultPolicy)
    /// leaves it out.
    #[error(
        "{place} has another content than when it was first read; put the file back as it was, or \
         begin a new run with the new one"
    )]
    ChangedFile {
        /// The sample.
        place: Place,
    },
    /// A sample has more bytes than an image may have.
    #[error("{place} has {bytes} bytes; an image file may have at most {limit}")]
    FileTooLarge {
        /// The sample.
        place: Place,
        /// Its length, as far as it was read.
        bytes: u64,
        /// The most bytes accepted.
        limit: u64,
    },
    /// A sample's bytes are not a usable image.
    #[error("{place} cannot be decoded: {cause}")]
    Decode {
        /// The sample.
        place: Place,
        /// The reason.
        cause: DecodeError,
    },
    /// A sample has another size than the first one.
    #[error(
        "{place} is {}x{} pixels, the first is {}x{}; set a size that all are resized to",
        .got.1, .got.0, .expected.1, .expected.0
    )]
    ImageSize {
        /// The sample.
        place: Place,
        /// Height and width of the first sample.
        expected: (usize, usize),
        /// Height and width of this one.
        got: (usize, usize),
    },
    /// The number of bytes does not match the size of an image.
    #[error("an image of {width}x{height} has {expected} bytes of RGB, got {got}")]
    ImageBytes {
        /// Rows.
        height: usize,
        /// Pixels in a row.
        width: usize,
        /// The expected bytes; 0 for an invalid size.
        expected: usize,
        /// The bytes given.
        got: usize,
    },
    /// A source has no sample.
    #[error("the data source is empty; at least one sample is needed")]
    Empty,
    /// An index points past the end of a source.
    #[error("sample {index} does not exist; the source has {samples}")]
    OutOfRange {
        /// The index asked for.
        index: usize,
        /// The number of samples.
        samples: usize,
    },
    /// A label names no class.
    #[error("{place} has label {label}; the source has {classes} classes")]
    Label {
        /// The sample.
        place: Place,
        /// Its label.
        label: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// A set has classes that the other does not have.
    #[error("unknown classes {}; expected some of {}", names(.unknown), names(.known))]
    UnknownClasses {
        /// The classes without a counterpart.
        unknown: Vec<String>,
        /// The classes to map to.
        known: Vec<String>,
    },
    /// Two paths name one image, which would be learned from and tested.
    #[error(
        "`{}` and `{}` are one file; remove one of them: what is learned from must not be tested",
        .first.display(), .second.display()
    )]
    SameFile {
        /// The first path.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A setting is out of its range.
    #[error("`{name}` is {value}; expected {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The given value.
        value: String,
        /// The allowed values.
        expected: String,
    },
    /// The memory for decoded images cannot be allocated.
    #[error(
        "{bytes} bytes for {samples} decoded images cannot be allocated; choose a smaller size"
    )]
    Memory {
        /// How many bytes.
        bytes: u128,
        /// How many images.
        samples: usize,
    },
    /// A set takes more of a device's memory than it may.
    #[error("the set takes {bytes} bytes on the device; at most {limit} may be used; load batches")]
    DeviceLimit {
        /// What the set takes.
        bytes: usize,
        /// The most it may take.
        limit: usize,
    },
    /// Samples that differ from epoch to epoch cannot be loaded once.
    #[error(
        "the samples are augmented or drawn anew in every epoch, so that they cannot be kept on \
         the device; load batches"
    )]
    RandomSamples,
    /// A split cannot be used.
    #[error(
        "`{}` is not a train/test split of this data: {reason}; use the data \
         that the run was trained on, or begin a new run",
        .path.display()
    )]
    Split {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Code that delivers a sample panicked.
    #[error("{place}: the worker panicked: {message}; this is a bug in the data source")]
    Panicked {
        /// The sample.
        place: Place,
        /// The panic's message.
        message: String,
    },
    /// More samples are faulty than the policy allows to skip.
    #[error("more than {at_most} samples of the epoch cannot be delivered; the last is: {cause}")]
    TooManyFaults {
        /// The largest number of samples that may be skipped in one epoch.
        at_most: u64,
        /// The error of the sample that exceeded the limit.
        cause: Box<DataError>,
    },
    /// A file cannot be written.
    #[error("`{}` cannot be written: {cause}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's message.
        cause: io::Error,
    },
    /// A line of a quarantine file is not an entry.
    #[error("`{}` line {line} is not a quarantine entry: {cause}", .path.display())]
    QuarantineLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The parser's message.
        cause: serde_json::Error,
    },
    /// The bytes of a file do not match its format.
    #[error("`{}` is damaged or has another format; download it again: {cause}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: FormatError,
    },
    /// A file is larger than the memory it may use.
    #[error("`{}` has more than {limit} bytes, the most that are read into memory", .path.display())]
    FileLimit {
        /// The file.
        path: PathBuf,
        /// The most bytes accepted.
        limit: u64,
    },
    /// The number of values does not match the shape of the samples.
    #[error("{samples} samples of shape {shape:?} have {expected} values, got {got}")]
    Values {
        /// How many samples.
        samples: usize,
        /// The shape of one.
        shape: Vec<usize>,
        /// The expected number of values; 0 if it overflows.
        expected: usize,
        /// The values given.
        got: usize,
    },
    /// A table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A volume cannot be read, used or predicted.
    #[error(transparent)]
    Volume(Box<VolumeError>),
    /// The number of values does not match the shape of a raster.
    #[error("a raster of shape {shape:?} has {expected} values, got {got}")]
    RasterValues {
        /// Sides and channels, `[height, width, channels]` or `[depth, height, width, channels]`.
        shape: Vec<usize>,
        /// The expected number of values; 0 if it overflows.
        expected: usize,
        /// The values given.
        got: usize,
    },
    /// A sample or its target has the wrong kind or shape.
    #[error("{place} has {got}; expected {expected}")]
    Sample {
        /// The sample.
        place: Place,
        /// What the first sample, or the kind of target, requires.
        expected: String,
        /// What this one has.
        got: String,
    },
    /// A target has other sides than its sample, so both cannot be augmented together.
    #[error("the target has sides {got:?}, the sample {expected:?}; augmentation needs equal ones")]
    TargetSides {
        /// Those of the sample.
        expected: Vec<usize>,
        /// Those of the target.
        got: Vec<usize>,
    },
    /// A transform does not support samples of this kind.
    #[error("`{transform}` needs {expected}, the samples are {got}; leave it out")]
    Augment {
        /// The transform.
        transform: &'static str,
        /// What it needs.
        expected: &'static str,
        /// What the samples are.
        got: String,
    },
    /// A batch has another rank than requested.
    #[error("the {part} of the batch has shape {got:?}; expected {expected} axes")]
    BatchRank {
        /// `input` or `target`.
        part: &'static str,
        /// The rank asked for.
        expected: usize,
        /// The shape of the batch.
        got: Vec<usize>,
    },
    /// A batch has targets of another kind than requested.
    #[error("the targets of the batch are {got}; expected {expected}")]
    BatchTarget {
        /// The requested value.
        expected: &'static str,
        /// What the batch has.
        got: &'static str,
    },
    /// A worker thread ended without delivering.
    #[error("batch {batch} was lost: its worker thread ended without delivering it")]
    WorkerLost {
        /// The batch, counted from the start of the epoch.
        batch: usize,
    },
    /// A saved state belongs to a stream with other settings.
    #[error("{}; resume with {} of the run", foreign(.setting, .loader, .state), cause_of(.setting))]
    ForeignState {
        /// The first setting that differs: `seed`, `batch`, `order`, `last batch`, `samples`,
        /// `source fingerprint` or `sample settings fingerprint`.
        setting: &'static str,
        /// This loader's.
        loader: String,
        /// The state's.
        state: String,
    },
    /// A saved position is not the start of a batch of this loader.
    #[error("the loader state is at sample {position}; expected the start of a batch of {batch}")]
    StatePosition {
        /// The state's position.
        position: u64,
        /// Samples in a batch.
        batch: usize,
    },
}

impl From<VolumeError> for DataError {
    fn from(error: VolumeError) -> Self {
        Self::Volume(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_place_both_sides_and_the_remedy() {
        let place = Place { name: "cat/1.jpg".to_owned(), index: Some(7) };
        let error = DataError::ImageSize { place, expected: (32, 48), got: (30, 40) };
        assert_eq!(
            error.to_string(),
            "`cat/1.jpg` (sample 7) is 40x30 pixels, the first is 48x32; \
             set a size that all are resized to"
        );
        let error = DecodeError::UnknownFormat { start: vec![0x3c, 0x68] };
        assert_eq!(
            error.to_string(),
            "expected a JPEG, PNG or TIFF, got a file that starts with 3c 68"
        );
        let known = (0..12).map(|class| class.to_string()).collect();
        let error = DataError::UnknownClasses { unknown: vec!["x".to_owned()], known };
        assert!(error.to_string().ends_with("`9`, 2 more"), "{error}");
    }
}
