//! A cache of samples in a file that is verified before use.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::cache::CacheUse;
use crate::cache::cache_file::{BODY, CacheFormat, CacheIndex, CacheWriter};
use crate::error::DataError;
use crate::guard::guarded;
use crate::pixels::{PixelType, Pixels};
use crate::progress::{Progress, ProgressUnit};
use crate::raster::{Raster, RasterSpec};
use crate::sample::{Sample, SampleTarget};
use crate::source::{SampleSource, read_exact_at, sample_place};

/// Samples of another set, with their targets, in a file, for sets whose values do not fit into
/// memory and take long to decode.
///
/// Samples may differ in type and size. Reading one is one read at its position; the operating
/// system caches what fits into memory. The whole file is verified when it is opened, at the speed
/// of SHA-256. The fingerprint is that of the other set, so a run may continue with either.
///
/// # Format
/// `UPDRAFTS`, version 3 (u32), zero (u32); of each sample the values of its raster, `[…, height,
/// width, channels]`, and of its target; names, types and sizes as JSON; the JSON's length (u64);
/// SHA-256 of everything before (32 bytes). Numbers are little-endian.
#[derive(Debug)]
pub struct FileSamples {
    file: File,
    path: PathBuf,
    index: SampleIndex,
    /// Where each sample starts in the body.
    starts: Vec<u64>,
}

/// The index of a cache file of samples.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleIndex {
    /// The fingerprint of the source.
    origin: String,
    /// The [`stored_state`](crate::SampleSource::stored_state) of the source.
    state: String,
    samples: Vec<StoredSample>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSample {
    name: String,
    raster: RasterSpec,
    target: StoredTarget,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredTarget {
    None,
    Class(usize),
    /// So many values.
    Values(usize),
    Image(RasterSpec),
    Labels(RasterSpec),
}

const FORMAT: CacheFormat = CacheFormat { magic: *b"UPDRAFTS", version: 3, holds: "samples" };

/// The approximate number of bytes that are decoded between two writes.
const BLOCK_BYTES: usize = 64 << 20;

impl FileSamples {
    /// Opens the cached samples of a source at `path`, or writes them there, read by `workers`
    /// threads (0 counts as 1).
    ///
    /// A file that is damaged, belongs to another source, or is older than a change of the source's
    /// files is rebuilt, and [`CacheUse`] has the reason; nothing is read from it. `progress` is
    /// called on the calling thread.
    ///
    /// # Errors
    /// The fault of the sample with the lowest index; [`DataError::Empty`], and
    /// [`DataError::Write`] if the file cannot be written.
    pub fn open(
        source: &dyn SampleSource,
        path: impl AsRef<Path>,
        workers: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, CacheUse), DataError> {
        let path = path.as_ref();
        let (origin, state) = (source.fingerprint(), source.stored_state());
        let (file, index, used) = FORMAT.open_or_build(path, (&origin, &state), |writer| {
            let samples = write_samples(source, workers, progress, writer)?;
            Ok(SampleIndex { origin: origin.clone(), state: state.clone(), samples })
        })?;
        let lengths = index.samples.iter().map(|sample| sample.bytes().unwrap_or(0));
        let starts = lengths.scan(0, |next, bytes| {
            let start = *next;
            *next += bytes;
            Some(start)
        });
        let starts = starts.collect();
        Ok((Self { file, path: path.to_owned(), index, starts }, used))
    }
}

fn write_samples(
    source: &dyn SampleSource,
    workers: usize,
    progress: &mut dyn FnMut(Progress),
    writer: &mut CacheWriter,
) -> Result<Vec<StoredSample>, DataError> {
    let total = source.len();
    if total == 0 {
        return Err(DataError::Empty);
    }
    let mut stored = Vec::with_capacity(total);
    // The first sample's size determines how many fit into a block.
    let mut block = 1;
    while stored.len() < total {
        let range = stored.len()..(stored.len() + block).min(total);
        let samples = read_range(source, range, workers)?;
        block = (BLOCK_BYTES / samples[0].bytes().max(1)).max(1);
        for sample in samples {
            writer.write(&sample.raster.pixels().to_le_bytes())?;
            writer.write(&sample.target.to_le_bytes())?;
            let name = source.name(stored.len());
            stored.push(StoredSample::of(name, &sample));
        }
        let done = stored.len() as u64;
        progress(Progress { done, total: total as u64, unit: ProgressUnit::Samples });
    }
    Ok(stored)
}

/// The samples of a range in order, read by several threads.
fn read_range(
    source: &dyn SampleSource,
    range: Range<usize>,
    workers: usize,
) -> Result<Vec<Sample<'_>>, DataError> {
    let read = |index| guarded(|| sample_place(source, index), || source.read(index));
    let share = range.len().div_ceil(workers.max(1));
    let firsts = range.clone().step_by(share);
    let parts = firsts.map(|first| first..(first + share).min(range.end));
    thread::scope(|scope| {
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(|| part.map(read).collect::<Result<Vec<_>, DataError>>()))
            .collect();
        let mut samples = Vec::with_capacity(range.len());
        for thread in threads {
            samples.extend(thread.join().expect("panics of a source are errors")?);
        }
        Ok(samples)
    })
}

impl StoredSample {
    fn of(name: String, sample: &Sample<'_>) -> Self {
        let target = match &sample.target {
            SampleTarget::None => StoredTarget::None,
            SampleTarget::Class(class) => StoredTarget::Class(*class),
            SampleTarget::Values(values) => StoredTarget::Values(values.len()),
            SampleTarget::Image(raster) => StoredTarget::Image(*raster.spec()),
            SampleTarget::Labels(raster) => StoredTarget::Labels(*raster.spec()),
        };
        Self { name, raster: *sample.raster.spec(), target }
    }

    /// Bytes of raster and target; `None` on overflow.
    fn bytes(&self) -> Option<u64> {
        raster_bytes(&self.raster)?.checked_add(self.target.bytes()?)
    }
}

impl StoredTarget {
    fn bytes(&self) -> Option<u64> {
        match self {
            Self::None | Self::Class(_) => Some(0),
            Self::Values(count) => (*count as u64).checked_mul(4),
            Self::Image(spec) | Self::Labels(spec) => raster_bytes(spec),
        }
    }

    fn read(&self, bytes: Vec<u8>) -> Result<SampleTarget<'static>, DataError> {
        Ok(match self {
            Self::None => SampleTarget::None,
            Self::Class(class) => SampleTarget::Class(*class),
            Self::Values(_) => match Pixels::from_le_bytes(PixelType::F32, bytes) {
                Pixels::F32(values) => SampleTarget::Values(values),
                _ => SampleTarget::Values(Cow::Borrowed(&[])),
            },
            Self::Image(spec) => SampleTarget::Image(read_raster(spec, bytes)?),
            Self::Labels(spec) => SampleTarget::Labels(read_raster(spec, bytes)?),
        })
    }
}

fn raster_bytes(spec: &RasterSpec) -> Option<u64> {
    (spec.values()? as u64).checked_mul(spec.pixel_type.bytes() as u64)
}

fn read_raster(spec: &RasterSpec, bytes: Vec<u8>) -> Result<Raster<'static>, DataError> {
    let pixels = Pixels::from_le_bytes(spec.pixel_type, bytes);
    Raster::try_new(spec.channels, &spec.sides(), pixels)
}

impl CacheIndex for SampleIndex {
    fn origin(&self) -> &str {
        &self.origin
    }

    fn state(&self) -> &str {
        &self.state
    }

    fn fits(&self, body_bytes: u64) -> bool {
        let mut lengths = self.samples.iter().map(StoredSample::bytes);
        let sum = lengths.try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
        !self.samples.is_empty() && sum == Some(body_bytes)
    }
}

impl SampleSource for FileSamples {
    fn len(&self) -> usize {
        self.index.samples.len()
    }

    fn name(&self, index: usize) -> String {
        self.index.samples[index].name.clone()
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        let stored = &self.index.samples[index];
        let mut values = vec![0; stored.bytes().unwrap_or(0) as usize];
        read_exact_at(&self.file, &mut values, BODY + self.starts[index]).map_err(|cause| {
            let mut place = sample_place(self, index);
            place.name = format!("{} in `{}`", place.name, self.path.display());
            DataError::Read { place, cause }
        })?;
        let target = values.split_off(raster_bytes(&stored.raster).unwrap_or(0) as usize);
        let raster = read_raster(&stored.raster, values)?;
        Ok(Sample { raster, target: stored.target.read(target)? })
    }

    fn fingerprint(&self) -> String {
        self.index.origin.clone()
    }

    fn stored_state(&self) -> String {
        self.index.state.clone()
    }
}
