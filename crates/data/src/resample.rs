//! Images at another size: bilinear, antialiased where they shrink.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

/// Bytes of an image, `[height, width, 3]`, with their height and width.
pub(crate) type Sized<B> = (B, (usize, usize));

/// A part of an image, in pixels or fractions of them: its top left corner, its height and width.
pub(crate) type Part = ((f64, f64), (f64, f64));

/// Resizes an image, or a part of it, into another one's bytes.
///
/// For one kind of pixel only: the choice among all of them at run time would compile the whole
/// library into this crate.
///
/// # Panics
/// If bytes do not match their size, a side does not fit 32 bits, or the part is empty or does
/// not lie in the image.
pub(crate) fn resample(
    resizer: &mut Resizer,
    (from, from_size): Sized<&[u8]>,
    part: Option<Part>,
    (to, to_size): Sized<&mut [u8]>,
) {
    let narrow = |(height, width): (usize, usize)| {
        [width, height].map(|side| u32::try_from(side).expect("image sides fit 32 bits"))
    };
    let ([width, height], [to_width, to_height]) = (narrow(from_size), narrow(to_size));
    let from = TypedImageRef::<U8x3>::from_buffer(width, height, from)
        .expect("the bytes match the size of the image");
    let mut to = TypedImage::<U8x3>::from_buffer(to_width, to_height, to)
        .expect("the bytes match the size of the result");
    let mut options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
        .use_alpha(false);
    if let Some(((top, left), (rows, columns))) = part {
        options = options.crop(left, top, columns, rows);
    }
    resizer
        .resize_typed(&from, &mut to, &options)
        .expect("the part lies in the image and is not empty");
}
