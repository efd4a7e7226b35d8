//! Decoded images held in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use crate::digest::Digest;
use crate::error::{DataError, Place};
use crate::guard::guarded;
use crate::image::Image;
use crate::progress::{Progress, ProgressUnit};
use crate::source::{ImageSource, place};
use crate::trace;

/// How many images a worker decodes between two reports.
const CHUNK: usize = 64;

/// Images of one size, decoded once and held as bytes: `3 · height · width` per image.
///
/// The fingerprint covers pixels, labels and classes.
#[derive(Debug)]
pub struct InMemoryImages {
    height: usize,
    width: usize,
    pixels: Vec<u8>,
    labels: Vec<usize>,
    names: Vec<String>,
    classes: Vec<String>,
    fingerprint: String,
}

/// What a worker says after each chunk.
struct Decoded {
    first: usize,
    digests: Vec<[u8; 32]>,
    fault: Option<DataError>,
}

impl InMemoryImages {
    /// Decodes a whole source on `workers` threads (0 counts as 1).
    ///
    /// Every image is stretched to `size`, height before width; without one, all must have the
    /// size of the first. `progress` hears of decoded images on the calling thread.
    ///
    /// # Errors
    /// The fault of the sample with the lowest index; [`DataError::Empty`],
    /// [`DataError::Setting`] for a size without pixels, [`DataError::Memory`] if the bytes
    /// cannot be had.
    pub fn decode(
        source: &dyn ImageSource,
        size: Option<(usize, usize)>,
        workers: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        let samples = source.len();
        if samples == 0 {
            return Err(DataError::Empty);
        }
        if let Some(size) = size {
            check_size(size)?;
        }
        let (height, width) = match size {
            Some(size) => size,
            None => read_guarded(source, 0)?.size(),
        };
        let bytes = Image::CHANNELS * height * width;
        let mut pixels = allocate(bytes, samples)?;
        let digests = Job { source, size, expected: (height, width), bytes, samples }.run(
            &mut pixels,
            workers,
            progress,
        )?;
        let labels: Vec<usize> = (0..samples).map(|index| source.label(index)).collect();
        let samples_told = labels.iter().zip(digests);
        let fingerprint = fingerprint((height, width), source.classes(), samples_told);
        trace::decoded(samples, pixels.len());
        Ok(Self {
            height,
            width,
            pixels,
            labels,
            names: (0..samples).map(|index| source.name(index)).collect(),
            classes: source.classes().to_vec(),
            fingerprint,
        })
    }

    /// Images whose bytes are at hand: `[images, height, width, 3]`, with a label and a name each.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no labels, [`DataError::Setting`] for a size without pixels,
    /// [`DataError::Values`] for a number of bytes or names that does not fit,
    /// [`DataError::Label`] for a label past the classes.
    pub fn try_from_pixels(
        (height, width): (usize, usize),
        pixels: Vec<u8>,
        labels: Vec<usize>,
        names: Vec<String>,
        classes: Vec<String>,
    ) -> Result<Self, DataError> {
        if labels.is_empty() {
            return Err(DataError::Empty);
        }
        check_size((height, width))?;
        let (samples, bytes) = (labels.len(), Image::CHANNELS * height * width);
        let mismatch = |shape, expected: Option<usize>, got| {
            Err(DataError::Values { samples, shape, expected: expected.unwrap_or(0), got })
        };
        if bytes.checked_mul(samples) != Some(pixels.len()) {
            let shape = vec![height, width, Image::CHANNELS];
            return mismatch(shape, bytes.checked_mul(samples), pixels.len());
        }
        if names.len() != samples {
            return mismatch(Vec::new(), Some(samples), names.len());
        }
        if let Some(index) = labels.iter().position(|&label| label >= classes.len()) {
            let place = Place { name: names[index].clone(), index: Some(index) };
            return Err(DataError::Label { place, label: labels[index], classes: classes.len() });
        }
        let digests = pixels.chunks_exact(bytes).map(pixel_digest);
        let fingerprint = fingerprint((height, width), &classes, labels.iter().zip(digests));
        Ok(Self { height, width, pixels, labels, names, classes, fingerprint })
    }

    /// Height and width of every image.
    #[must_use]
    pub const fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// The bytes that all pixels take.
    #[must_use]
    pub const fn pixel_bytes(&self) -> usize {
        self.pixels.len()
    }
}

impl ImageSource for InMemoryImages {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: usize) -> usize {
        self.labels[index]
    }

    fn name(&self, index: usize) -> String {
        self.names[index].clone()
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        let bytes = Image::CHANNELS * self.height * self.width;
        Image::try_new(self.height, self.width, &self.pixels[index * bytes..][..bytes])
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

/// One decoding of a whole source.
struct Job<'a> {
    source: &'a dyn ImageSource,
    size: Option<(usize, usize)>,
    expected: (usize, usize),
    bytes: usize,
    samples: usize,
}

impl Job<'_> {
    fn run(
        &self,
        pixels: &mut [u8],
        workers: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<[u8; 32]>, DataError> {
        let mut digests = vec![[0; 32]; self.samples];
        let mut fault: Option<(usize, DataError)> = None;
        let chunks = Mutex::new(pixels.chunks_mut(CHUNK * self.bytes).enumerate());
        let stop = AtomicBool::new(false);
        let work = |sender: &mpsc::Sender<Decoded>| {
            // Chunks are handed out in order and finished once begun, so the lowest fault is
            // the same for any number of workers.
            while !stop.load(Ordering::Relaxed) {
                let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((chunk, pixels)) = next else { break };
                let first = chunk * CHUNK;
                let last = first + pixels.len() / self.bytes;
                let decoded = self.decode_chunk(first..last, pixels);
                if decoded.fault.is_some() {
                    stop.store(true, Ordering::Relaxed);
                }
                if sender.send(decoded).is_err() {
                    break;
                }
            }
        };
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let mut started = 0;
            for _ in 0..workers.clamp(1, self.samples.div_ceil(CHUNK)) {
                let (sender, work) = (sender.clone(), &work);
                let builder = thread::Builder::new().name("updraft-decode".to_owned());
                started += usize::from(builder.spawn_scoped(scope, move || work(&sender)).is_ok());
            }
            if started == 0 {
                work(&sender);
            }
            drop(sender);
            let mut done = 0;
            for decoded in receiver {
                done += decoded.digests.len();
                digests[decoded.first..][..decoded.digests.len()].copy_from_slice(&decoded.digests);
                let at = decoded.first;
                if let Some(error) = decoded.fault
                    && fault.as_ref().is_none_or(|(lowest, _)| at < *lowest)
                {
                    fault = Some((at, error));
                }
                let (done, total) = (done as u64, self.samples as u64);
                progress(Progress { done, total, unit: ProgressUnit::Images });
            }
        });
        fault.map_or(Ok(digests), |(_, error)| Err(error))
    }

    fn decode_chunk(&self, indices: Range<usize>, pixels: &mut [u8]) -> Decoded {
        let mut decoded = Decoded { first: indices.start, digests: Vec::new(), fault: None };
        for (index, pixels) in indices.zip(pixels.chunks_exact_mut(self.bytes)) {
            match self.decode_one(index) {
                Ok(image) => {
                    pixels.copy_from_slice(image.pixels());
                    decoded.digests.push(pixel_digest(pixels));
                }
                Err(error) => {
                    decoded.fault = Some(error);
                    break;
                }
            }
        }
        decoded
    }

    fn decode_one(&self, index: usize) -> Result<Image<'_>, DataError> {
        let image = read_guarded(self.source, index)?;
        let label = self.source.label(index);
        if label >= self.source.classes().len() {
            let (place, classes) = (place(self.source, index), self.source.classes().len());
            return Err(DataError::Label { place, label, classes });
        }
        match self.size {
            Some((height, width)) => Ok(image.resize(height, width)),
            None if image.size() == self.expected => Ok(image),
            None => Err(DataError::ImageSize {
                place: place(self.source, index),
                expected: self.expected,
                got: image.size(),
            }),
        }
    }
}

fn pixel_digest(pixels: &[u8]) -> [u8; 32] {
    Digest::new("updraft pixels").bytes(pixels).raw()
}

fn fingerprint<'a>(
    (height, width): (usize, usize),
    classes: &[String],
    samples: impl Iterator<Item = (&'a usize, [u8; 32])>,
) -> String {
    let digest = Digest::new("updraft decoded images").number(height).number(width).texts(classes);
    samples.fold(digest, |digest, (&label, pixels)| digest.number(label).bytes(&pixels)).hex()
}

fn read_guarded(source: &dyn ImageSource, index: usize) -> Result<Image<'_>, DataError> {
    guarded(|| place(source, index), || source.read(index))
}

/// Whether images can be resized to a size: each side from 1 to 65,535, as JPEG allows.
pub(crate) fn check_size((height, width): (usize, usize)) -> Result<(), DataError> {
    let sides = 1..=usize::from(u16::MAX);
    if sides.contains(&height) && sides.contains(&width) {
        return Ok(());
    }
    Err(DataError::Setting {
        name: "size",
        value: format!("{width}x{height}"),
        expected: "sides from 1 to 65535".to_owned(),
    })
}

/// The bytes of all images, or an error in place of the abort of a plain allocation.
fn allocate(bytes: usize, samples: usize) -> Result<Vec<u8>, DataError> {
    let failed = || DataError::Memory { bytes: bytes as u128 * samples as u128, samples };
    let total = bytes.checked_mul(samples).ok_or_else(failed)?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(total).map_err(|_| failed())?;
    pixels.resize(total, 0);
    Ok(pixels)
}
