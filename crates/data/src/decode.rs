//! Decoding JPEG, PNG and TIFF files.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use crate::error::{DataError, DecodeError, Place};
use crate::image::Image;
use crate::jpeg;
use crate::pixels::Pixels;
use crate::raster::Raster;
use crate::tiff_pages::tiff_has_second_picture;

/// The most pixels an image may have: 100 megapixels, 300 MB of RGB.
pub(crate) const MAX_PIXELS: u64 = 100_000_000;

/// The most bytes a decoder may allocate: 16-bit RGBA at [`MAX_PIXELS`], and working memory.
pub(crate) const MAX_DECODER_BYTES: u64 = 1 << 30;

/// Decodes a JPEG, PNG or TIFF file; the format is detected from its bytes, not from its name.
///
/// Gray becomes RGB, 16 bits become 8, transparency is dropped. EXIF orientation is not applied.
/// A TIFF of several pages is refused, unless those after the first are thumbnails or masks.
/// `name` names the bytes in errors.
///
/// # Errors
/// [`DataError::Decode`] for anything but a complete image of at most 100 megapixels.
///
/// # Example
/// ```
/// use updraft_data::{DataError, DecodeError, decode};
///
/// let error = decode(b"<html>", "cat.jpg").unwrap_err();
/// assert!(matches!(
///     error,
///     DataError::Decode { cause: DecodeError::UnknownFormat { .. }, .. }
/// ));
/// ```
pub fn decode(bytes: &[u8], name: &str) -> Result<Image<'static>, DataError> {
    decode_bytes(bytes, None).map_err(|cause| DataError::Decode {
        place: Place { name: name.to_owned(), index: None },
        cause,
    })
}

/// `kept` is the height and width to which the caller will shrink the image, if known: it may then
/// be decoded at a smaller size.
pub(crate) fn decode_bytes(
    bytes: &[u8],
    kept: Option<(usize, usize)>,
) -> Result<Image<'static>, DecodeError> {
    let format = format(bytes)?;
    if format == ImageFormat::Jpeg {
        return jpeg::decode(bytes, kept);
    }
    if format == ImageFormat::Tiff && tiff_has_second_picture(bytes) {
        let cause = "a TIFF of several pages, where an image has one; save each page as a file";
        return Err(DecodeError::Damaged { cause: cause.into() });
    }
    let image = read(bytes, format)?.into_rgb8();
    Image::try_new(image.height() as usize, image.width() as usize, image.into_raw())
        .map_err(|cause| DecodeError::Damaged { cause: cause.into() })
}

/// Decodes a PNG or the first page of a TIFF without converting its channels or its type: 8 or 16
/// bits, or 32-bit floats. Palette images and JPEGs become RGB.
pub(crate) fn decode_raster(bytes: &[u8]) -> Result<Raster<'static>, DecodeError> {
    let format = format(bytes)?;
    if format == ImageFormat::Jpeg {
        return Ok(jpeg::decode(bytes, None)?.into());
    }
    let image = read(bytes, format)?;
    let sides = [image.height() as usize, image.width() as usize];
    let channels = usize::from(image.color().channel_count());
    let pixels: Pixels<'_> = match image {
        DynamicImage::ImageLuma8(image) => image.into_raw().into(),
        DynamicImage::ImageLumaA8(image) => image.into_raw().into(),
        DynamicImage::ImageRgb8(image) => image.into_raw().into(),
        DynamicImage::ImageRgba8(image) => image.into_raw().into(),
        DynamicImage::ImageLuma16(image) => image.into_raw().into(),
        DynamicImage::ImageLumaA16(image) => image.into_raw().into(),
        DynamicImage::ImageRgb16(image) => image.into_raw().into(),
        DynamicImage::ImageRgba16(image) => image.into_raw().into(),
        DynamicImage::ImageRgb32F(image) => image.into_raw().into(),
        DynamicImage::ImageRgba32F(image) => image.into_raw().into(),
        other => {
            let cause = format!("pixels of type {:?}", other.color()).into();
            return Err(DecodeError::Damaged { cause });
        }
    };
    Raster::try_new(channels, &sides, pixels)
        .map_err(|cause| DecodeError::Damaged { cause: cause.into() })
}

fn format(bytes: &[u8]) -> Result<ImageFormat, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::Tiff)) => Ok(format),
        _ => Err(DecodeError::UnknownFormat { start: bytes[..bytes.len().min(8)].to_vec() }),
    }
}

/// Decodes a PNG or TIFF without conversion.
fn read(bytes: &[u8], format: ImageFormat) -> Result<DynamicImage, DecodeError> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(DecodeError::TooLarge { width, height, limit: MAX_PIXELS });
    }
    DynamicImage::from_decoder(decoder).map_err(damaged)
}

fn damaged(cause: ImageError) -> DecodeError {
    DecodeError::Damaged { cause: cause.into() }
}
