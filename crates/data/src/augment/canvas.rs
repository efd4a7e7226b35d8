//! The image that the transforms of one sample work on.

use fast_image_resize::Resizer;

use crate::image::Image;
use crate::resample::{Part, resample};

/// Working memory of a thread that augments images: the picture at hand and a spare one.
#[derive(Debug, Default)]
pub struct Canvas {
    height: usize,
    width: usize,
    pixels: Vec<u8>,
    spare: Vec<u8>,
    resizer: Resizer,
}

impl Canvas {
    pub(crate) fn load(&mut self, image: &Image<'_>) {
        (self.height, self.width) = image.size();
        self.pixels.clear();
        self.pixels.extend_from_slice(image.pixels());
    }

    pub(crate) fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    pub(crate) fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The rows, each `3 · width` bytes.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.pixels.chunks_exact_mut(Image::CHANNELS * self.width)
    }

    /// Replaces the image by what `draw` makes of it: it gets the old bytes and the new ones.
    pub(crate) fn redraw(&mut self, draw: impl FnOnce(&[u8], &mut [u8])) {
        self.spare.resize(self.pixels.len(), 0);
        draw(&self.pixels, &mut self.spare);
        std::mem::swap(&mut self.pixels, &mut self.spare);
    }
}

impl Canvas {
    /// Stretches a part over the whole, antialiased.
    pub(crate) fn crop_resized(&mut self, part: Part) {
        self.spare.resize(self.pixels.len(), 0);
        let (size, Self { pixels, spare, resizer, .. }) = (self.size(), self);
        resample(resizer, (pixels, size), Some(part), (spare, size));
        std::mem::swap(pixels, spare);
    }
}

#[cfg(test)]
impl Canvas {
    /// An image whose three channels are all `values`.
    pub(crate) fn gray(height: usize, width: usize, values: &[u8]) -> Self {
        let pixels: Vec<u8> = values.iter().flat_map(|&value| [value; 3]).collect();
        let mut canvas = Self::default();
        canvas.load(&Image::try_new(height, width, pixels).expect("values fill the image"));
        canvas
    }

    /// One channel of every pixel.
    pub(crate) fn channel(&self, channel: usize) -> Vec<u8> {
        self.pixels.iter().skip(channel).step_by(Image::CHANNELS).copied().collect()
    }
}
