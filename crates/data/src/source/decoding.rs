//! Decoding many images to one size, on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use crate::digest::Digest;
use crate::error::DataError;
use crate::guard::guarded;
use crate::image::Image;
use crate::source::{ImageSource, place};

/// How many images a worker decodes between two reports.
const CHUNK: usize = 64;

/// Decodes the images of a source to one size.
pub(crate) struct Decoding<'a> {
    source: &'a dyn ImageSource,
    wanted: Option<(usize, usize)>,
    size: (usize, usize),
}

/// The message of a worker after each chunk.
struct Decoded {
    first: usize,
    images: usize,
    fault: Option<DataError>,
}

impl<'a> Decoding<'a> {
    /// Every image is resized to `wanted`; without it, all must have the size of the first.
    pub(crate) fn try_new(
        source: &'a dyn ImageSource,
        wanted: Option<(usize, usize)>,
    ) -> Result<Self, DataError> {
        if source.is_empty() {
            return Err(DataError::Empty);
        }
        let size = match wanted {
            Some(size) => {
                check_size(size)?;
                size
            }
            None => guarded(|| place(source, 0), || source.read(0))?.size(),
        };
        Ok(Self { source, wanted, size })
    }

    pub(crate) const fn size(&self) -> (usize, usize) {
        self.size
    }

    pub(crate) const fn image_bytes(&self) -> usize {
        Image::CHANNELS * self.size.0 * self.size.1
    }

    /// Decodes the images of a range into `pixels`; `done` receives on this thread how many more
    /// are finished.
    pub(crate) fn run(
        &self,
        range: Range<usize>,
        pixels: &mut [u8],
        workers: usize,
        done: &mut dyn FnMut(usize),
    ) -> Result<(), DataError> {
        let mut fault: Option<(usize, DataError)> = None;
        let chunks = Mutex::new(pixels.chunks_mut(CHUNK * self.image_bytes()).enumerate());
        let stop = AtomicBool::new(false);
        let work = |sender: &mpsc::Sender<Decoded>| {
            // Chunks are handed out in order and finished once begun, so the lowest fault is
            // the same for any number of workers.
            while !stop.load(Ordering::Relaxed) {
                let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((chunk, pixels)) = next else { break };
                let decoded = self.decode_chunk(range.start, chunk * CHUNK, pixels);
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
            for _ in 0..workers.clamp(1, range.len().div_ceil(CHUNK).max(1)) {
                let (sender, work) = (sender.clone(), &work);
                let builder = thread::Builder::new().name("updraft-decode".to_owned());
                started += usize::from(builder.spawn_scoped(scope, move || work(&sender)).is_ok());
            }
            if started == 0 {
                work(&sender);
            }
            drop(sender);
            for decoded in receiver {
                let at = decoded.first;
                if let Some(error) = decoded.fault
                    && fault.as_ref().is_none_or(|(lowest, _)| at < *lowest)
                {
                    fault = Some((at, error));
                }
                done(decoded.images);
            }
        });
        fault.map_or(Ok(()), |(_, error)| Err(error))
    }

    fn decode_chunk(&self, start: usize, first: usize, pixels: &mut [u8]) -> Decoded {
        let mut decoded = Decoded { first, images: 0, fault: None };
        let images = pixels.chunks_exact_mut(self.image_bytes());
        for (index, pixels) in (start + first..).zip(images) {
            match self.decode(index) {
                Ok(image) => {
                    pixels.copy_from_slice(image.pixels());
                    decoded.images += 1;
                }
                Err(error) => {
                    decoded.fault = Some(error);
                    break;
                }
            }
        }
        decoded
    }

    /// Reads an image at the common size.
    pub(crate) fn decode(&self, index: usize) -> Result<Image<'a>, DataError> {
        let image = guarded(
            || place(self.source, index),
            || match self.wanted {
                Some(size) => self.source.read_for(index, size),
                None => self.source.read(index),
            },
        )?;
        let (label, classes) = (self.source.label(index), self.source.classes().len());
        if label >= classes {
            return Err(DataError::Label { place: place(self.source, index), label, classes });
        }
        match self.wanted {
            Some((height, width)) => Ok(image.resize(height, width)),
            None if image.size() == self.size => Ok(image),
            None => Err(DataError::ImageSize {
                place: place(self.source, index),
                expected: self.size,
                got: image.size(),
            }),
        }
    }
}

/// The fingerprint of a source's images at one size, or of their own size without one: the same
/// for every cache, so that a run may continue with another.
pub(crate) fn sized_fingerprint(source: &dyn ImageSource, size: Option<(usize, usize)>) -> String {
    let own = source.fingerprint();
    let Some((height, width)) = size else { return own };
    Digest::new("updraft images of one size").text(&own).number(height).number(width).hex()
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
