//! Writing a volume as OME-TIFF, row by row.

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

/// The compression of a TIFF.
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
    /// The compression.
    pub compression: TiffCompression,
    /// Whether offsets have 64 bits (`BigTIFF`); `None` decides by the size.
    pub big: Option<bool>,
    /// The program that the file names as its writer, in ASCII;
    /// [`tiff_software`](crate::tiff_software) reads it.
    pub software: Option<&'static str>,
}

/// The offset and the size of a strip.
pub(crate) type StripPlace = (u64, u64);

/// Writes an OME-TIFF row by row, with one strip of each channel in memory.
///
/// It writes to a temporary file (`.name.partial`), which is renamed into place when it is complete
/// and replaces an existing file. The planes of all channels of a slice are consecutive, one page
/// each, little-endian, in strips of about 256 KiB; axes and the size of a voxel are in the OME
/// header.
pub struct VolumeWriter {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    spec: VolumeSpec,
    offsets: Offsets,
    compression: TiffCompression,
    software: Option<&'static str>,
    rows_per_strip: usize,
    /// The strips of each page: by frame, then slice, then channel.
    strips: Vec<Vec<StripPlace>>,
    end: u64,
    /// Rows of an incomplete strip, per channel.
    pending: Vec<Vec<u8>>,
    /// The next row, counted over all frames and slices.
    next_row: usize,
    keeps_partial: bool,
}

/// The approximate size of a strip in bytes.
const STRIP_BYTES: usize = 1 << 18;

impl VolumeWriter {
    /// Creates a file; missing folders are created.
    ///
    /// # Errors
    /// [`DataError::Write`], [`VolumeError::Field`] for more values than a TIFF can contain.
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

    /// Continues an unfinished file with these strips, of which the last ends at `end`.
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
        // Reserves space for directories: about 200 bytes per page and 16 per strip.
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
            software: config.software,
            rows_per_strip,
            strips: vec![Vec::new(); pages],
            end: 0,
            pending: vec![Vec::new(); spec.raster.channels],
            next_row: 0,
            keeps_partial: false,
        })
    }

    /// Writes the next rows, `[channels, rows, width]`, of one slice or of several whole slices.
    ///
    /// # Errors
    /// [`DataError::Write`].
    ///
    /// # Panics
    /// If the values are of another type than the volume's, are not a whole number of rows, or are
    /// more than remain.
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

    /// Writes the pending strip of each channel of a slice, counted over all frames.
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

    /// Whether no strip is incomplete: a file can be resumed only there.
    pub(crate) fn is_between_strips(&self) -> bool {
        self.pending.iter().all(Vec::is_empty)
    }

    /// Rows over all slices and frames, every strip, and the end of the last one.
    pub(crate) fn written(&self) -> (usize, &[Vec<StripPlace>], u64) {
        (self.next_row, &self.strips, self.end)
    }

    /// Keeps the unfinished temporary file, to continue it later.
    pub(crate) const fn keep_partial(&mut self) {
        self.keeps_partial = true;
    }

    /// Flushes to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), DataError> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        synced.map_err(|cause| self.failed(cause))
    }

    /// Writes the directories and renames the file into place.
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
                software: self.software.filter(|_| page == 0),
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
            // A temporary file that remains is replaced by the next one.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Writes a whole volume as OME-TIFF.
///
/// # Errors
/// As [`VolumeWriter::create`], [`VolumeWriter::write`] and [`VolumeSource::read`]; an existing
/// file is then unchanged.
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
