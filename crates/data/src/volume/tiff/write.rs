//! Writing a volume as OME-TIFF, rows after rows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use crate::error::{DataError, VolumeError};
use crate::pixels::Pixels;
use crate::raster::Raster;
use crate::volume::ome;
use crate::volume::source::passes;
use crate::volume::tiff::directory::{Offsets, PageEntry};
use crate::volume::{VolumeSource, VolumeSpec};

/// How the values of a TIFF are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TiffCompression {
    /// Not at all.
    #[default]
    None,
    /// Deflate, at its fastest level.
    Deflate,
}

/// How a TIFF is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TiffWriteConfig {
    /// How values are compressed.
    pub compression: TiffCompression,
    /// Whether offsets have 64 bits (`BigTIFF`); `None` is where 32 would not do.
    pub big: Option<bool>,
}

/// Where a strip lies in a file, and how many bytes it has.
pub(crate) type StripPlace = (u64, u64);

/// An OME-TIFF that is written rows after rows, with memory for one strip of each channel.
///
/// It is written to a file beside its later place (`.name.partial`), which gets its name when it
/// is whole; one that was there is replaced.
/// The planes of all channels of a slice follow each other, one page each, little-endian, in strips
/// of about a quarter of a mebibyte; axes and the size of a voxel are in the OME header.
pub struct VolumeWriter {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    spec: VolumeSpec,
    offsets: Offsets,
    compression: TiffCompression,
    rows_per_strip: usize,
    /// The strips of each page: by frame, then slice, then channel.
    strips: Vec<Vec<StripPlace>>,
    end: u64,
    /// Rows that fill no strip yet, of each channel.
    pending: Vec<Vec<u8>>,
    /// The row of all frames and slices that comes next.
    next_row: usize,
    keeps_partial: bool,
}

/// About how many bytes a strip has.
const STRIP_BYTES: usize = 1 << 18;

impl VolumeWriter {
    /// Begins a file, in a folder that is made if it is missing.
    ///
    /// # Errors
    /// [`DataError::Write`], [`VolumeError::Field`] for more values than a TIFF can have.
    pub fn create(
        path: impl AsRef<Path>,
        spec: &VolumeSpec,
        config: &TiffWriteConfig,
    ) -> Result<Self, DataError> {
        let path = path.as_ref();
        let folder = path.parent().unwrap_or(Path::new(""));
        let failed = |cause| DataError::Write { path: path.to_owned(), cause };
        if !folder.as_os_str().is_empty() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let partial = partial_path(path);
        let file = File::create(&partial).map_err(failed)?;
        let mut writer = Self::of(path, partial, file, spec, config)?;
        let header = writer.offsets.header(0);
        writer.put(&header)?;
        Ok(writer)
    }

    /// Goes on with a file that was left with these strips, whose last one ends at `end`.
    pub(crate) fn resume(
        path: &Path,
        spec: &VolumeSpec,
        config: &TiffWriteConfig,
        strips: Vec<Vec<StripPlace>>,
        (end, next_row): (u64, usize),
    ) -> Result<Self, DataError> {
        let partial = partial_path(path);
        let failed = |cause| DataError::Write { path: path.to_owned(), cause };
        let mut file = OpenOptions::new().write(true).open(&partial).map_err(failed)?;
        file.set_len(end).map_err(failed)?;
        file.seek(SeekFrom::Start(end)).map_err(failed)?;
        let mut writer = Self::of(path, partial, file, spec, config)?;
        (writer.strips, writer.end, writer.next_row) = (strips, end, next_row);
        Ok(writer)
    }

    fn of(
        path: &Path,
        partial: PathBuf,
        file: File,
        spec: &VolumeSpec,
        config: &TiffWriteConfig,
    ) -> Result<Self, DataError> {
        let field = |field: &str, got: String, expected: &str| VolumeError::Field {
            path: path.to_owned(),
            field: field.to_owned(),
            got,
            expected: expected.to_owned(),
        };
        let [depth, height, width] = spec.sides();
        let fits = |side: usize| u32::try_from(side).is_ok();
        let (true, Some(bytes)) = (fits(height) && fits(width), spec.bytes()) else {
            let expected = "sides below 2^32 and bytes below 2^64";
            return Err(field("the size", spec.to_string(), expected).into());
        };
        // Room for directories: some 200 bytes a page and 16 a strip.
        let row = width * spec.raster.pixel_type.bytes();
        let rows_per_strip = (STRIP_BYTES / row).clamp(1, height);
        let pages = spec.frames * depth * spec.raster.channels;
        let strips = height.div_ceil(rows_per_strip);
        let directories = (pages as u64) * (300 + 16 * strips as u64) + (1 << 20);
        let needs_big =
            bytes.saturating_add(bytes / 1000).saturating_add(directories) > u64::from(u32::MAX);
        if config.big == Some(false) && needs_big {
            let expected = "less than 4 GiB in a TIFF of 32-bit offsets; write a BigTIFF";
            return Err(field("the size", format!("{bytes} bytes"), expected).into());
        }
        let is_big = config.big.unwrap_or(needs_big);
        let offsets = if is_big { Offsets::Big } else { Offsets::Classic };
        Ok(Self {
            path: path.to_owned(),
            partial,
            file: BufWriter::with_capacity(1 << 18, file),
            spec: *spec,
            offsets,
            compression: config.compression,
            rows_per_strip,
            strips: vec![Vec::new(); pages],
            end: 0,
            pending: vec![Vec::new(); spec.raster.channels],
            next_row: 0,
            keeps_partial: false,
        })
    }

    /// Writes the next rows: `[channels, rows, width]`, of one slice or of several whole ones.
    ///
    /// # Errors
    /// [`DataError::Write`].
    ///
    /// # Panics
    /// If the values are of another type than the volume's, are no whole number of rows, or are
    /// more than the volume has left.
    pub fn write(&mut self, planes: &Pixels<'_>) -> Result<(), DataError> {
        assert_eq!(planes.pixel_type(), self.spec.raster.pixel_type, "values of another type");
        let [depth, height, width] = self.spec.sides();
        let channels = self.spec.raster.channels;
        let rows = planes.len() / (channels * width);
        let left = self.spec.frames * depth * height - self.next_row;
        assert!(rows * channels * width == planes.len() && rows <= left, "{rows} rows of {left}");
        let bytes = planes.to_le_bytes();
        let row_bytes = width * self.spec.raster.pixel_type.bytes();
        let mut done = 0;
        while done < rows {
            let row = self.next_row % height;
            let strip_end = (row / self.rows_per_strip + 1) * self.rows_per_strip;
            let strip_end = strip_end.min(height);
            let count = (strip_end - row).min(rows - done);
            for channel in 0..channels {
                let part = &bytes[(channel * rows + done) * row_bytes..][..count * row_bytes];
                self.pending[channel].extend_from_slice(part);
            }
            if row + count == strip_end {
                self.write_strips(self.next_row / height)?;
            }
            (done, self.next_row) = (done + count, self.next_row + count);
        }
        Ok(())
    }

    /// Writes the strip that is pending of each channel of a slice, counted over all frames.
    fn write_strips(&mut self, slice: usize) -> Result<(), DataError> {
        let channels = self.spec.raster.channels;
        for channel in 0..channels {
            let mut strip = std::mem::take(&mut self.pending[channel]);
            let start = self.end;
            match self.compression {
                TiffCompression::None => self.put(&strip)?,
                TiffCompression::Deflate => {
                    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                    let packed = encoder.write_all(&strip).and_then(|()| encoder.finish());
                    self.put(&packed.map_err(|cause| self.failed(cause))?)?;
                }
            }
            self.strips[slice * channels + channel].push((start, self.end - start));
            strip.clear();
            self.pending[channel] = strip;
        }
        Ok(())
    }

    /// What the file has.
    #[must_use]
    pub const fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// Whether no row waits for its strip to be full: only there can a file be resumed.
    pub(crate) fn is_between_strips(&self) -> bool {
        self.pending.iter().all(Vec::is_empty)
    }

    /// Rows of all slices of all frames, every strip, and where the last one ends.
    pub(crate) fn written(&self) -> (usize, &[Vec<StripPlace>], u64) {
        (self.next_row, &self.strips, self.end)
    }

    /// Leaves the file beside its place if it is not finished, to go on with it.
    pub(crate) const fn keep_partial(&mut self) {
        self.keeps_partial = true;
    }

    /// Gives what was written to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), DataError> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        synced.map_err(|cause| self.failed(cause))
    }

    /// Writes the directories and gives the file its name.
    ///
    /// # Errors
    /// [`DataError::Write`].
    ///
    /// # Panics
    /// If rows are missing.
    pub fn finish(mut self) -> Result<(), DataError> {
        let [depth, height, width] = self.spec.sides();
        let rows = self.spec.frames * depth * height;
        assert_eq!(self.next_row, rows, "{} of {rows} rows were written", self.next_row);
        let description = ome::header(&self.spec);
        let strips = std::mem::take(&mut self.strips);
        let (mut first, mut at) = (0, self.end);
        for (page, own) in strips.iter().enumerate() {
            let entry = PageEntry {
                height,
                width,
                pixel_type: self.spec.raster.pixel_type,
                is_deflated: self.compression == TiffCompression::Deflate,
                rows_per_strip: self.rows_per_strip,
                strips: own,
                description: (page == 0).then_some(description.as_str()),
            };
            let is_last = page + 1 == strips.len();
            let written = self.offsets.write_directory(&entry, at, is_last, &mut self.file);
            let (place, end) = written.map_err(|cause| self.failed(cause))?;
            first = if page == 0 { place } else { first };
            at = end;
        }
        let named = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(&self.offsets.header(first)))
            .and_then(|()| self.file.flush())
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| fs::rename(&self.partial, &self.path));
        named.map_err(|cause| self.failed(cause))?;
        self.keeps_partial = true;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.file.write_all(bytes).map_err(|cause| self.failed(cause))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn failed(&self, cause: io::Error) -> DataError {
        DataError::Write { path: self.path.clone(), cause }
    }
}

impl Drop for VolumeWriter {
    fn drop(&mut self) {
        if !self.keeps_partial {
            // A file that stays behind is replaced by the next one.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Writes a whole volume as OME-TIFF.
///
/// # Errors
/// As [`VolumeWriter::create`], [`VolumeWriter::write`] and [`VolumeSource::read`]; a file that was
/// there is whole then.
pub fn write_volume(
    path: impl AsRef<Path>,
    volume: &dyn VolumeSource,
    config: &TiffWriteConfig,
) -> Result<(), DataError> {
    let mut writer = VolumeWriter::create(path, volume.spec(), config)?;
    for region in passes(volume.spec(), 1 << 22) {
        writer.write(&planes(&volume.read(&region)?))?;
    }
    writer.finish()
}

/// The values of a raster as planes, one channel after the other.
fn planes<'a>(raster: &'a Raster<'_>) -> Pixels<'a> {
    fn of<T: Copy>(values: &[T], channels: usize) -> Vec<T> {
        let channel = |channel| values.iter().skip(channel).step_by(channels).copied();
        (0..channels).flat_map(channel).collect()
    }
    match (raster.pixels(), raster.spec().channels) {
        (pixels, 1) => pixels.borrowed(),
        (Pixels::U8(values), channels) => of(values, channels).into(),
        (Pixels::U16(values), channels) => of(values, channels).into(),
        (Pixels::F32(values), channels) => of(values, channels).into(),
    }
}

fn partial_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partial"))
}
