//! The image that the transforms of one sample work on.

use fast_image_resize::images::{Image as Resized, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::image::Image;

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
    /// Stretches a part over the whole, antialiased: its top left pixel, its rows and columns.
    pub(crate) fn crop_resized(
        &mut self,
        (top, left): (usize, usize),
        (rows, columns): (usize, usize),
    ) {
        self.spare.resize(self.pixels.len(), 0);
        let narrow = |side: usize| u32::try_from(side).expect("image sides fit 32 bits");
        let (width, height) = (narrow(self.width), narrow(self.height));
        let from = ImageRef::new(width, height, &self.pixels, PixelType::U8x3)
            .expect("the bytes match the size since the image was loaded");
        let mut to = Resized::from_slice_u8(width, height, &mut self.spare, PixelType::U8x3)
            .expect("the spare bytes are as many");
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
            .use_alpha(false)
            .crop(left as f64, top as f64, columns as f64, rows as f64);
        self.resizer
            .resize(&from, &mut to, &options)
            .expect("the part lies inside the image and is not empty");
        std::mem::swap(&mut self.pixels, &mut self.spare);
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
