//! Decoded images in memory.

use crate::digest::Digest;
use crate::error::{DataError, Place};
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::progress::{Progress, ProgressUnit};
use crate::source::ImageSource;
use crate::source::decoding::{Decoding, check_size, sized_fingerprint};
use crate::trace;

/// Images of one size, decoded once and stored as bytes: `3 · height · width` per image.
///
/// The fingerprint of decoded images is that of their source and size, and that of given pixels
/// covers pixels, labels and classes.
#[derive(Debug)]
pub struct InMemoryImages {
    height: usize,
    width: usize,
    pixels: Vec<u8>,
    labels: Vec<usize>,
    names: Vec<String>,
    classes: Vec<String>,
    fingerprint: String,
    /// Of the files that were decoded.
    contents: Option<KnownContents>,
}

impl InMemoryImages {
    /// Decodes a whole source on `workers` threads (0 counts as 1).
    ///
    /// Every image is resized to `size` (height, width); without one, all must have the size of the
    /// first. `progress` is called with the decoded images on the calling thread.
    ///
    /// # Errors
    /// The fault of the sample with the lowest index; [`DataError::Empty`], [`DataError::Setting`]
    /// for a size without pixels, [`DataError::Memory`] if the bytes cannot be allocated.
    pub fn decode(
        source: &dyn ImageSource,
        size: Option<(usize, usize)>,
        workers: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        let decoding = Decoding::try_new(source, size)?;
        let ((height, width), samples) = (decoding.size(), source.len());
        let mut pixels = allocate(decoding.image_bytes(), samples)?;
        let mut done = 0;
        decoding.run(0..samples, &mut pixels, workers, &mut |more| {
            done += more as u64;
            progress(Progress { done, total: samples as u64, unit: ProgressUnit::Images });
        })?;
        let labels: Vec<usize> = (0..samples).map(|index| source.label(index)).collect();
        trace::decoded(samples, pixels.len());
        Ok(Self {
            height,
            width,
            pixels,
            labels,
            names: (0..samples).map(|index| source.name(index)).collect(),
            classes: source.classes().to_vec(),
            fingerprint: sized_fingerprint(source, size),
            contents: source.known_contents(),
        })
    }

    /// Images from decoded bytes: `[images, height, width, 3]`, with a label and a name each.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no labels, [`DataError::Setting`] for a size without pixels,
    /// [`DataError::Values`] for a number of bytes or names that does not match,
    /// [`DataError::Label`] for a label that is not a class.
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
        let digest =
            Digest::new("updraft decoded images").number(height).number(width).texts(&classes);
        let digest = labels.iter().fold(digest, |digest, &label| digest.number(label));
        let fingerprint = digest.bytes(&pixels).hex();
        let contents = None;
        Ok(Self { height, width, pixels, labels, names, classes, fingerprint, contents })
    }

    /// Height and width of every image.
    #[must_use]
    pub const fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// The size of all pixels in bytes.
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

    fn known_contents(&self) -> Option<KnownContents> {
        self.contents.clone()
    }
}

/// Allocates the bytes of all images; returns an error where a plain allocation would abort.
fn allocate(bytes: usize, samples: usize) -> Result<Vec<u8>, DataError> {
    let failed = || DataError::Memory { bytes: bytes as u128 * samples as u128, samples };
    let total = bytes.checked_mul(samples).ok_or_else(failed)?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(total).map_err(|_| failed())?;
    pixels.resize(total, 0);
    Ok(pixels)
}
