//! The pixels or voxels of one sample, in any number of channels.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::pixels::{Element, PixelType, Pixels};

/// The specification of a raster: pixel type, channels and sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RasterSpec {
    /// The type of the values.
    pub pixel_type: PixelType,
    /// Values of each pixel or voxel.
    pub channels: usize,
    /// Slices of a volume; `None` for a picture.
    pub depth: Option<usize>,
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
}

impl RasterSpec {
    /// That of an [`Image`]: three channels of 8 bits.
    #[must_use]
    pub const fn rgb8(height: usize, width: usize) -> Self {
        let (pixel_type, channels) = (PixelType::U8, Image::CHANNELS);
        Self { pixel_type, channels, depth: None, height, width }
    }

    /// `[height, width]` or `[depth, height, width]`.
    #[must_use]
    pub fn sides(&self) -> Vec<usize> {
        self.depth.into_iter().chain([self.height, self.width]).collect()
    }

    /// The shape in a batch: `[channels, height, width]` or `[channels, depth, height, width]`.
    #[must_use]
    pub fn planar_shape(&self) -> Vec<usize> {
        [&[self.channels], self.sides().as_slice()].concat()
    }

    /// How many values there are, or `None` on overflow.
    #[must_use]
    pub fn values(&self) -> Option<usize> {
        let sides = [self.channels, self.slices(), self.height, self.width];
        sides.into_iter().try_fold(1_usize, usize::checked_mul)
    }

    /// Slices of a volume; 1 for a picture.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.depth.unwrap_or(1)
    }
}

impl Display for RasterSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sides: Vec<String> = self.sides().iter().map(usize::to_string).collect();
        let channels = if self.channels == 1 { "channel" } else { "channels" };
        write!(f, "{} {} {channels} of {}", self.pixel_type, self.channels, sides.join("x"))
    }
}

/// A picture or a volume: any number of channels of u8, u16 or f32.
///
/// The values of a pixel are contiguous: `[height, width, channels]`, or `[depth, height, width,
/// channels]` for a volume; for one channel that is the order of the planes. They may be borrowed
/// from the source, so reading a sample that is in memory copies nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Raster<'a> {
    spec: RasterSpec,
    pixels: Pixels<'a>,
}

impl<'a> Raster<'a> {
    /// Creates a raster from values in the order stated above; `sides` is `[height, width]` or
    /// `[depth, height, width]`.
    ///
    /// # Errors
    /// [`DataError::Setting`] for sides or channels that are 0, [`DataError::RasterValues`] for a
    /// number of values that does not match.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{PixelType, Raster};
    ///
    /// let volume = Raster::try_new(2, &[3, 4, 5], vec![0_u16; 2 * 3 * 4 * 5])?;
    /// assert_eq!((volume.spec().pixel_type, volume.spec().depth), (PixelType::U16, Some(3)));
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn try_new(
        channels: usize,
        sides: &[usize],
        pixels: impl Into<Pixels<'a>>,
    ) -> Result<Self, DataError> {
        let pixels = pixels.into();
        let (depth, height, width) = match *sides {
            [height, width] => (None, height, width),
            [depth, height, width] => (Some(depth), height, width),
            _ => return Err(bad_sides(sides)),
        };
        if sides.contains(&0) {
            return Err(bad_sides(sides));
        }
        if channels == 0 {
            let (value, expected) = (channels.to_string(), "at least 1".to_owned());
            return Err(DataError::Setting { name: "channels", value, expected });
        }
        let spec = RasterSpec { pixel_type: pixels.pixel_type(), channels, depth, height, width };
        if spec.values() == Some(pixels.len()) {
            return Ok(Self { spec, pixels });
        }
        let (expected, got) = (spec.values().unwrap_or(0), pixels.len());
        Err(DataError::RasterValues { shape: [sides, &[channels]].concat(), expected, got })
    }

    /// Creates a raster from planes, one channel after the other: `[channels, height, width]` or
    /// `[channels, depth, height, width]`.
    ///
    /// More than one channel is copied into the order of a raster.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new).
    pub fn from_planes(
        channels: usize,
        sides: &[usize],
        planes: impl Into<Pixels<'a>>,
    ) -> Result<Self, DataError> {
        let raster = Self::try_new(channels, sides, planes)?;
        let pixels = match raster.pixels {
            pixels if channels == 1 => pixels,
            Pixels::U8(planes) => interleaved(channels, &planes).into(),
            Pixels::U16(planes) => interleaved(channels, &planes).into(),
            Pixels::F32(planes) => interleaved(channels, &planes).into(),
        };
        Ok(Self { spec: raster.spec, pixels })
    }

    /// Type, channels and sides.
    #[must_use]
    pub const fn spec(&self) -> &RasterSpec {
        &self.spec
    }

    /// The values: `[height, width, channels]` or `[depth, height, width, channels]`.
    #[must_use]
    pub const fn pixels(&self) -> &Pixels<'a> {
        &self.pixels
    }

    /// The values, in the order of [`pixels`](Self::pixels).
    #[must_use]
    pub fn into_pixels(self) -> Pixels<'a> {
        self.pixels
    }

    /// The bytes of the values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pixels.len() * self.spec.pixel_type.bytes()
    }

    /// The same raster with borrowed values.
    #[must_use]
    pub fn borrowed(&self) -> Raster<'_> {
        Raster { spec: self.spec, pixels: self.pixels.borrowed() }
    }

    /// The same raster with owned values.
    #[must_use]
    pub fn into_owned(self) -> Raster<'static> {
        Raster { spec: self.spec, pixels: self.pixels.into_owned() }
    }

    /// A raster whose values were checked.
    pub(crate) fn of(spec: RasterSpec, pixels: impl Into<Pixels<'a>>) -> Self {
        let pixels = pixels.into();
        debug_assert_eq!(spec.values(), Some(pixels.len()));
        Self { spec, pixels }
    }

    pub(crate) fn describe(&self, digest: Digest) -> Digest {
        let digest = digest.text(&self.spec.to_string());
        match &self.pixels {
            Pixels::U8(values) => digest.bytes(values),
            Pixels::U16(values) => values.chunks(4096).fold(digest, |digest, values| {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                digest.bytes(&bytes)
            }),
            Pixels::F32(values) => values.iter().fold(digest, |digest, &value| digest.float(value)),
        }
    }
}

/// Copies nothing.
impl<'a> From<Image<'a>> for Raster<'a> {
    fn from(image: Image<'a>) -> Self {
        let spec = RasterSpec::rgb8(image.height(), image.width());
        Raster { spec, pixels: Pixels::U8(image.into_values()) }
    }
}

fn bad_sides(sides: &[usize]) -> DataError {
    let expected = "[height, width] or [depth, height, width], each at least 1".to_owned();
    DataError::Setting { name: "sides", value: format!("{sides:?}"), expected }
}

/// From `[channels, pixels]` to `[pixels, channels]`.
fn interleaved<T: Element>(channels: usize, planes: &[T]) -> Vec<T> {
    let mut pixels = vec![T::default(); planes.len()];
    for (channel, plane) in planes.chunks_exact(planes.len() / channels).enumerate() {
        let places = pixels.iter_mut().skip(channel).step_by(channels);
        for (place, &value) in places.zip(plane) {
            *place = value;
        }
    }
    pixels
}

/// Joins the channels of rasters of the same size and pixel type.
pub(crate) fn joined(mut rasters: Vec<Raster<'static>>) -> Raster<'static> {
    if rasters.len() == 1 {
        return rasters.remove(0);
    }
    let channels = rasters.iter().map(|raster| raster.spec().channels).sum();
    let spec = RasterSpec { channels, ..*rasters[0].spec() };
    macro_rules! join {
        ($kind:ident) => {{
            let parts = rasters.iter().filter_map(|raster| match raster.pixels() {
                Pixels::$kind(values) => Some((&**values, raster.spec().channels)),
                _ => None,
            });
            side_by_side(&parts.collect::<Vec<_>>(), channels)
        }};
    }
    match rasters[0].pixels() {
        Pixels::U8(_) => Raster::of(spec, join!(U8)),
        Pixels::U16(_) => Raster::of(spec, join!(U16)),
        Pixels::F32(_) => Raster::of(spec, join!(F32)),
    }
}

/// From several `[pixels, own channels]` to `[pixels, channels]`.
fn side_by_side<T: Copy + Default>(parts: &[(&[T], usize)], channels: usize) -> Vec<T> {
    let pixels = parts[0].0.len() / parts[0].1;
    let mut values = vec![T::default(); pixels * channels];
    let mut first = 0;
    for &(part, own) in parts {
        for (pixel, part) in values.chunks_exact_mut(channels).zip(part.chunks_exact(own)) {
            pixel[first..][..own].copy_from_slice(part);
        }
        first += own;
    }
    values
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn planes_become_pixels_with_their_values_side_by_side() {
        let planes: Vec<u16> = vec![1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60];
        let raster = Raster::from_planes(2, &[1, 2, 3], planes).unwrap();
        let expected = [1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60];
        assert_eq!(raster.pixels(), &Pixels::U16(Cow::Borrowed(&expected)));
        assert_eq!(raster.spec().planar_shape(), [2, 1, 2, 3]);
        assert_eq!(
            (raster.bytes(), raster.spec().to_string()),
            (24, "u16 2 channels of 1x2x3".to_owned())
        );
    }

    #[test]
    fn what_is_no_raster_is_refused() {
        let message = |channels, sides: &[usize], count| {
            Raster::try_new(channels, sides, vec![0.0_f32; count]).unwrap_err().to_string()
        };
        let expected = "expected [height, width] or [depth, height, width], each at least 1";
        assert_eq!(message(1, &[4], 4), format!("`sides` is [4]; {expected}"));
        assert_eq!(message(1, &[0, 4], 0), format!("`sides` is [0, 4]; {expected}"));
        assert_eq!(message(0, &[2, 2], 0), "`channels` is 0; expected at least 1");
        assert_eq!(message(3, &[2, 2], 11), "a raster of shape [2, 2, 3] has 12 values, got 11");
        let error = Raster::try_new(2, &[usize::MAX, 2], vec![0_u8; 4]).unwrap_err();
        assert!(matches!(error, DataError::RasterValues { expected: 0, .. }), "{error}");
    }

    #[test]
    fn an_image_becomes_a_raster_without_copying() {
        let bytes = [7; 12];
        let raster = Raster::from(Image::try_new(2, 2, &bytes[..]).unwrap());
        assert_eq!(*raster.spec(), RasterSpec::rgb8(2, 2));
        let Pixels::U8(Cow::Borrowed(values)) = raster.pixels() else { panic!("copied") };
        assert_eq!(values.as_ptr(), bytes.as_ptr());
    }
}
