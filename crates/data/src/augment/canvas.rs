//! The sample that the transforms work on, with its target.

use fast_image_resize::Resizer;

use crate::augment::layer::{Interpolation, Layer};
use crate::augment::motion::{Axis, Crop};
use crate::error::DataError;
use crate::image::Image;
use crate::pixels::PixelType;
use crate::raster::{Raster, RasterSpec};
use crate::sample::SampleTarget;

/// Buffers of a thread that augments samples: the current sample, its target if that is a raster,
/// and a spare buffer for each.
///
/// The methods that move pixels move the target with the sample: an image is interpolated like
/// the sample, a mask of labels by nearest neighbor.
#[derive(Debug, Default)]
pub struct Canvas {
    sample: Layer,
    target: Layer,
    has_target: bool,
    resizer: Resizer,
}

/// The values of a sample on a [`Canvas`], `[height, width, channels]` or `[depth, height, width,
/// channels]`.
#[derive(Debug, PartialEq)]
pub enum PixelsMut<'a> {
    /// Unsigned 8-bit integers.
    U8(&'a mut [u8]),
    /// Unsigned 16-bit integers.
    U16(&'a mut [u16]),
    /// 32-bit floating-point numbers.
    F32(&'a mut [f32]),
}

impl Canvas {
    /// Takes a copy of a sample and, if it is a raster, of its target.
    ///
    /// # Errors
    /// [`DataError::TargetSides`] for a target of other sides than the sample.
    pub fn load(
        &mut self,
        sample: &Raster<'_>,
        target: &SampleTarget<'_>,
    ) -> Result<(), DataError> {
        let (raster, interpolation) = match target {
            SampleTarget::Image(raster) => (Some(raster), Interpolation::Bilinear),
            SampleTarget::Labels(raster) => (Some(raster), Interpolation::Nearest),
            SampleTarget::None | SampleTarget::Class(_) | SampleTarget::Values(_) => {
                (None, Interpolation::Bilinear)
            }
        };
        self.has_target = false;
        self.sample.load(sample, Interpolation::Bilinear);
        if let Some(raster) = raster {
            check_sides(sample.spec(), raster.spec())?;
            self.target.load(raster, interpolation);
            self.has_target = true;
        }
        Ok(())
    }

    /// Takes a copy of an image that has no target on the canvas.
    pub(crate) fn load_image(&mut self, image: &Image<'_>) {
        self.has_target = false;
        let pixels = image.pixels();
        let spec = RasterSpec::rgb8(image.height(), image.width());
        self.sample.load(&Raster::of(spec, pixels), Interpolation::Bilinear);
    }

    /// The sample's pixel type, channels and sides.
    #[must_use]
    pub const fn spec(&self) -> &RasterSpec {
        self.sample.spec()
    }

    /// The sample as it is now.
    #[must_use]
    pub fn raster(&self) -> Raster<'_> {
        self.sample.raster()
    }

    /// The target as it is now, if it is a raster.
    #[must_use]
    pub fn target(&self) -> Option<Raster<'_>> {
        self.has_target.then(|| self.target.raster())
    }

    /// The values of the sample, to be changed in place; the target stays as it is.
    #[must_use]
    pub fn pixels_mut(&mut self) -> PixelsMut<'_> {
        match self.spec().pixel_type {
            PixelType::U8 => PixelsMut::U8(self.sample.u8_mut()),
            PixelType::U16 => PixelsMut::U16(self.sample.u16_mut()),
            PixelType::F32 => PixelsMut::F32(self.sample.f32_mut()),
        }
    }

    /// Mirrors along an axis; pictures have no depth, so mirroring along it does nothing.
    pub fn flip(&mut self, axis: Axis) {
        self.each(|layer, _| layer.flip(axis));
    }

    /// Exchanges rows and columns of every slice.
    ///
    /// # Panics
    /// If there are not as many rows as columns.
    pub fn transpose(&mut self) {
        let RasterSpec { height, width, .. } = *self.spec();
        assert_eq!(height, width, "{height} rows and {width} columns are not exchanged");
        self.each(|layer, _| layer.transpose());
    }

    /// Moves by whole slices, rows (down) and columns (right), and mirrors at the edges to fill the
    /// uncovered area (the edge itself is not repeated).
    ///
    /// # Panics
    /// If a move is not shorter than its side.
    pub fn translate(&mut self, slices: isize, down: isize, right: isize) {
        let spec = self.spec();
        for (length, side) in [(slices, spec.slices()), (down, spec.height), (right, spec.width)] {
            assert!(length.unsigned_abs() < side, "a move by {length} on a side of {side}");
        }
        if (slices, down, right) != (0, 0, 0) {
            self.each(|layer, _| layer.shift([slices, down, right]));
        }
    }

    /// Resamples every slice: each pixel takes its value from the position that `from` returns for
    /// it; positions outside are mirrored at the edges (the edge pixel is not repeated).
    ///
    /// Positions are pixels down and right from the center, and must be finite.
    pub fn remap(&mut self, from: impl Fn(f32, f32) -> (f32, f32)) {
        self.each(|layer, _| layer.remap(&from));
    }

    /// Resizes a part of every slice to the slice's size, antialiased where it shrinks.
    ///
    /// # Panics
    /// If the part is empty or does not lie in the sample.
    pub fn crop_resized(&mut self, crop: Crop) {
        let RasterSpec { height, width, .. } = *self.spec();
        let within = |first: usize, part: usize, side: usize| {
            part > 0 && first.checked_add(part).is_some_and(|end| end <= side)
        };
        assert!(
            within(crop.top, crop.rows, height) && within(crop.left, crop.columns, width),
            "{crop:?} does not lie in {height}x{width}"
        );
        self.each(|layer, resizer| layer.crop_resized(crop, resizer));
    }

    /// The bytes of a u8 sample.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.sample.bytes()
    }

    fn each(&mut self, mut work: impl FnMut(&mut Layer, &mut Resizer)) {
        work(&mut self.sample, &mut self.resizer);
        if self.has_target {
            work(&mut self.target, &mut self.resizer);
        }
    }
}

/// Whether a target can be augmented with its sample.
pub(crate) fn check_sides(sample: &RasterSpec, target: &RasterSpec) -> Result<(), DataError> {
    let (expected, got) = (sample.sides(), target.sides());
    if expected == got { Ok(()) } else { Err(DataError::TargetSides { expected, got }) }
}

#[cfg(test)]
impl Canvas {
    /// An image whose three channels are all `values`.
    pub(crate) fn gray(height: usize, width: usize, values: &[u8]) -> Self {
        let pixels: Vec<u8> = values.iter().flat_map(|&value| [value; 3]).collect();
        let mut canvas = Self::default();
        canvas.load_image(&Image::try_new(height, width, pixels).expect("values fill the image"));
        canvas
    }

    /// One channel of every pixel.
    pub(crate) fn channel(&self, channel: usize) -> Vec<u8> {
        self.bytes().iter().skip(channel).step_by(Image::CHANNELS).copied().collect()
    }
}
