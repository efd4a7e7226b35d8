//! A raster that transforms change, with a buffer for the result.

use fast_image_resize::Resizer;

use crate::augment::motion::{self, Axis, Crop};
use crate::pixels::{PixelType, Pixels};
use crate::raster::{Raster, RasterSpec};
use crate::resample::resample;

/// How values between pixels are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpolation {
    /// Interpolated between the neighboring pixels: for images.
    Bilinear,
    /// The nearest pixel: for labels.
    Nearest,
}

/// A raster and a buffer for its replacement; the buffers of each pixel type are kept.
#[derive(Debug)]
pub(super) struct Layer {
    spec: RasterSpec,
    interpolation: Interpolation,
    u8: Buffers<u8>,
    u16: Buffers<u16>,
    f32: Buffers<f32>,
}

/// Those of one pixel type.
#[derive(Debug)]
struct Buffers<T> {
    pixels: Vec<T>,
    spare: Vec<T>,
}

impl<T> Default for Buffers<T> {
    fn default() -> Self {
        Self { pixels: Vec::new(), spare: Vec::new() }
    }
}

impl<T: Copy + Default> Buffers<T> {
    fn load(&mut self, values: &[T]) {
        self.pixels.clear();
        self.pixels.extend_from_slice(values);
    }

    /// Replaces the raster by the result of `draw`, which gets the old values and the buffer for
    /// the new ones.
    fn redraw(&mut self, draw: impl FnOnce(&[T], &mut [T])) {
        self.spare.resize(self.pixels.len(), T::default());
        draw(&self.pixels, &mut self.spare);
        std::mem::swap(&mut self.pixels, &mut self.spare);
    }
}

/// Evaluates an expression for the buffers of the layer's pixel type.
macro_rules! with_buffers {
    ($layer:expr, $buffers:ident => $result:expr) => {
        match $layer.spec.pixel_type {
            PixelType::U8 => {
                let $buffers = &mut $layer.u8;
                $result
            }
            PixelType::U16 => {
                let $buffers = &mut $layer.u16;
                $result
            }
            PixelType::F32 => {
                let $buffers = &mut $layer.f32;
                $result
            }
        }
    };
}

/// An empty picture.
impl Default for Layer {
    fn default() -> Self {
        Self {
            spec: RasterSpec::rgb8(0, 0),
            interpolation: Interpolation::Bilinear,
            u8: Buffers::default(),
            u16: Buffers::default(),
            f32: Buffers::default(),
        }
    }
}

impl Layer {
    pub(super) fn load(&mut self, raster: &Raster<'_>, interpolation: Interpolation) {
        (self.spec, self.interpolation) = (*raster.spec(), interpolation);
        match raster.pixels() {
            Pixels::U8(values) => self.u8.load(values),
            Pixels::U16(values) => self.u16.load(values),
            Pixels::F32(values) => self.f32.load(values),
        }
    }

    pub(super) const fn spec(&self) -> &RasterSpec {
        &self.spec
    }

    pub(super) fn raster(&self) -> Raster<'_> {
        match self.spec.pixel_type {
            PixelType::U8 => Raster::of(self.spec, self.u8.pixels.as_slice()),
            PixelType::U16 => Raster::of(self.spec, self.u16.pixels.as_slice()),
            PixelType::F32 => Raster::of(self.spec, self.f32.pixels.as_slice()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.u8.pixels
    }

    pub(super) fn u8_mut(&mut self) -> &mut [u8] {
        &mut self.u8.pixels
    }

    pub(super) fn u16_mut(&mut self) -> &mut [u16] {
        &mut self.u16.pixels
    }

    pub(super) fn f32_mut(&mut self) -> &mut [f32] {
        &mut self.f32.pixels
    }

    pub(super) fn flip(&mut self, axis: Axis) {
        with_buffers!(self, buffers => motion::flip(&mut buffers.pixels, &self.spec, axis));
    }

    pub(super) fn transpose(&mut self) {
        let spec = self.spec;
        with_buffers!(self, buffers => {
            buffers.redraw(|old, new| motion::transpose(old, new, &spec));
        });
    }

    pub(super) fn shift(&mut self, moves: [isize; 3]) {
        let spec = self.spec;
        with_buffers!(self, buffers => {
            buffers.redraw(|old, new| motion::shift(old, new, &spec, moves));
        });
    }

    pub(super) fn remap(&mut self, from: &impl Fn(f32, f32) -> (f32, f32)) {
        let spec = self.spec;
        let is_nearest = self.interpolation == Interpolation::Nearest;
        with_buffers!(self, buffers => buffers.redraw(|old, new| {
            if is_nearest {
                motion::remap_nearest(old, new, &spec, from);
            } else {
                motion::remap(old, new, &spec, from);
            }
        }));
    }

    pub(super) fn crop_resized(&mut self, crop: Crop, resizer: &mut Resizer) {
        let spec = self.spec;
        if self.interpolation == Interpolation::Nearest {
            with_buffers!(self, buffers => {
                buffers.redraw(|old, new| motion::crop_nearest(old, new, &spec, crop));
            });
        } else if spec == RasterSpec::rgb8(spec.height, spec.width) {
            let size = (spec.height, spec.width);
            let part = Some(crop.part());
            self.u8.redraw(|old, new| resample(resizer, (old, size), part, (new, size)));
        } else {
            with_buffers!(self, buffers => {
                buffers.redraw(|old, new| motion::crop_resized(old, new, &spec, crop));
            });
        }
    }
}
