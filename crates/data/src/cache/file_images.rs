//! A cache of decoded images in a file that is verified before use.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::CacheUse;
use crate::cache::cache_file::{BODY, CacheFormat, CacheIndex, CacheWriter};
use crate::error::{DataError, Place};
use crate::image::Image;
use crate::known_contents::KnownContents;
use crate::progress::{Progress, ProgressUnit};
use crate::source::{Decoding, ImageSource, read_exact_at, sized_fingerprint};

/// Decoded images of one size in a file, for sets whose pixels do not fit into memory.
///
/// Reading an image is one read at its position; the operating system caches what fits into memory.
/// The whole file is verified when it is opened, at the speed of SHA-256. The fingerprint is that
/// of every cache of the same source and size, so a run may continue with another.
///
/// Images of one size need no table of types and sizes, which makes the index of a
/// [`FileSamples`](crate::FileSamples) several times as large; both are written, verified and
/// rebuilt by the same code.
///
/// # Format
/// `UPDRAFTC`, version 3 (u32), zero (u32); the pixels, `[images, height, width, 3]`; labels,
/// names, classes and sizes as JSON; the JSON's length (u64); SHA-256 of everything before
/// (32 bytes). Numbers are little-endian.
#[derive(Debug)]
pub struct FileImages {
    file: File,
    path: PathBuf,
    index: ImageIndex,
    /// Of the files that were decoded; a file that is reused reads none.
    contents: Option<KnownContents>,
}

/// The index of a cache file of images.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageIndex {
    /// The fingerprint of the source at this size.
    origin: String,
    /// The [`stored_state`](crate::ImageSource::stored_state) of the source.
    state: String,
    height: usize,
    width: usize,
    labels: Vec<usize>,
    names: Vec<String>,
    classes: Vec<String>,
}

const FORMAT: CacheFormat = CacheFormat { magic: *b"UPDRAFTC", version: 3, holds: "images" };

/// The largest number of bytes that are decoded between two writes.
const BLOCK_BYTES: usize = 64 << 20;

impl FileImages {
    /// Opens the decoded images of a source at `path`, or decodes them there on `workers`
    /// threads (0 counts as 1).
    ///
    /// Every image is resized to `size` (height, width); without one, all must have the size of the
    /// first. A file that is damaged, belongs to another source or size, or is older than a change
    /// of the source's files is rebuilt, and [`CacheUse`] has the reason; nothing is read from it.
    /// `progress` is called on the calling thread.
    ///
    /// # Errors
    /// The fault of the sample with the lowest index; [`DataError::Empty`],
    /// [`DataError::Setting`] for a size without pixels, [`DataError::Write`] if the file cannot
    /// be written.
    pub fn open(
        source: &dyn ImageSource,
        size: Option<(usize, usize)>,
        path: impl AsRef<Path>,
        workers: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, CacheUse), DataError> {
        let path = path.as_ref();
        let (origin, state) = (sized_fingerprint(source, size), source.stored_state());
        let (file, index, used) = FORMAT.open_or_build(path, (&origin, &state), |writer| {
            write_images(source, (size, &origin, &state), workers, progress, writer)
        })?;
        let (path, contents) = (path.to_owned(), source.known_contents());
        Ok((Self { file, path, index, contents }, used))
    }

    /// Height and width of every image.
    #[must_use]
    pub const fn size(&self) -> (usize, usize) {
        (self.index.height, self.index.width)
    }
}

impl CacheIndex for ImageIndex {
    fn origin(&self) -> &str {
        &self.origin
    }

    fn state(&self) -> &str {
        &self.state
    }

    fn fits(&self, body_bytes: u64) -> bool {
        let image = Image::CHANNELS as u128 * self.height as u128 * self.width as u128;
        image > 0
            && image.checked_mul(self.labels.len() as u128) == Some(u128::from(body_bytes))
            && !self.labels.is_empty()
            && self.names.len() == self.labels.len()
            && self.labels.iter().all(|&label| label < self.classes.len())
    }
}

fn write_images(
    source: &dyn ImageSource,
    (size, origin, state): (Option<(usize, usize)>, &str, &str),
    workers: usize,
    progress: &mut dyn FnMut(Progress),
    writer: &mut CacheWriter,
) -> Result<ImageIndex, DataError> {
    let decoding = Decoding::try_new(source, size)?;
    let (samples, bytes) = (source.len(), decoding.image_bytes());
    let block = (BLOCK_BYTES / bytes).clamp(1, samples);
    let mut pixels = vec![0; block * bytes];
    let mut done = 0;
    for first in (0..samples).step_by(block) {
        let range = first..(first + block).min(samples);
        let pixels = &mut pixels[..range.len() * bytes];
        decoding.run(range, pixels, workers, &mut |more| {
            done += more as u64;
            progress(Progress { done, total: samples as u64, unit: ProgressUnit::Images });
        })?;
        writer.write(pixels)?;
    }
    let (height, width) = decoding.size();
    let labels: Vec<usize> = (0..samples).map(|index| source.label(index)).collect();
    Ok(ImageIndex {
        origin: origin.to_owned(),
        state: state.to_owned(),
        height,
        width,
        labels,
        names: (0..samples).map(|index| source.name(index)).collect(),
        classes: source.classes().to_vec(),
    })
}

impl ImageSource for FileImages {
    fn len(&self) -> usize {
        self.index.labels.len()
    }

    fn classes(&self) -> &[String] {
        &self.index.classes
    }

    fn label(&self, index: usize) -> usize {
        self.index.labels[index]
    }

    fn name(&self, index: usize) -> String {
        self.index.names[index].clone()
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        let (height, width) = self.size();
        let mut pixels = vec![0; Image::CHANNELS * height * width];
        let position = BODY + index as u64 * pixels.len() as u64;
        read_exact_at(&self.file, &mut pixels, position).map_err(|cause| {
            let name = format!("{} in `{}`", self.index.names[index], self.path.display());
            DataError::Read { place: Place { name, index: Some(index) }, cause }
        })?;
        Image::try_new(height, width, pixels)
    }

    fn fingerprint(&self) -> String {
        self.index.origin.clone()
    }

    fn stored_state(&self) -> String {
        self.index.state.clone()
    }

    fn known_contents(&self) -> Option<KnownContents> {
        self.contents.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_contradicts_the_pixels_does_not_fit() {
        let index = |labels: &[usize], height| ImageIndex {
            origin: String::new(),
            state: String::new(),
            height,
            width: 1,
            labels: labels.to_vec(),
            names: vec!["a".to_owned(), "b".to_owned()],
            classes: vec!["x".to_owned()],
        };
        assert!(index(&[0, 0], 1).fits(6));
        for (labels, height) in
            [(&[0, 1][..], 1), (&[0], 1), (&[], 1), (&[0, 0], 2), (&[0, 0], usize::MAX)]
        {
            assert!(!index(labels, height).fits(6), "{labels:?} {height}");
        }
    }
}
