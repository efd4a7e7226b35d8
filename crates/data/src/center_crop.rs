//! The center of an image that is resized without changing the ratio of its sides.

use crate::resample::Part;

/// The part of an image of a size that becomes the center crop of another one, in pixels of the
/// image; `None` if that is all of it.
///
/// The image is resized so that it just covers `factor` times the crop, and the crop is cut out of
/// that. Both is one step here: the part is resized to the crop.
pub(crate) fn center_part(
    (height, width): (usize, usize),
    crop: (usize, usize),
    factor: f64,
) -> Option<Part> {
    let resized = covering((height, width), least_size(crop, factor));
    if resized == crop {
        return None;
    }
    let (top, rows) = along(height, resized.0, crop.0);
    let (left, columns) = along(width, resized.1, crop.1);
    Some(((top, left), (rows, columns)))
}

/// The least size of a resized image before the center is cut out.
pub(crate) fn least_size((height, width): (usize, usize), factor: f64) -> (usize, usize) {
    let side = |side: usize| (factor * side as f64).round() as usize;
    (side(height), side(width))
}

/// The smallest size with the ratio of an image that is not below `least`; the longer side is
/// rounded down.
fn covering(
    (height, width): (usize, usize),
    (least_height, least_width): (usize, usize),
) -> (usize, usize) {
    // In integers, so that the rounding is that of exact numbers.
    let [h, w, least_h, least_w] = [height, width, least_height, least_width].map(|n| n as u128);
    if h * least_w <= w * least_h {
        (least_height, (least_h * w / h) as usize)
    } else {
        ((least_w * h / w) as usize, least_width)
    }
}

/// Where the crop begins along a side, and its length, in pixels of the image.
fn along(side: usize, resized: usize, crop: usize) -> (f64, f64) {
    let margins = resized - crop;
    // Half of them, rounded to an even number where both are as near.
    let first = margins / 2 + (margins % 2) * (margins / 2 % 2);
    let scaled = |pixels: usize| pixels as f64 * side as f64 / resized as f64;
    let start = scaled(first);
    // A sum of rounded numbers may be the last bit larger than the side.
    (start, scaled(crop).min(side as f64 - start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::random::Random;

    #[test]
    fn sides_and_places_are_those_of_torchvision() {
        // Sizes of `Resize(256)` and corners of `CenterCrop(224)`, for pictures of height, width.
        let cases = [
            ((375, 500), (256, 341), (16, 58)),
            ((500, 375), (341, 256), (58, 16)),
            ((333, 500), (256, 384), (16, 80)),
            ((256, 256), (256, 256), (16, 16)),
            // 33 pixels beyond the crop: 16.5 rounds to 16; 35 pixels: 17.5 rounds to 18.
            ((256, 257), (256, 257), (16, 16)),
            ((256, 259), (256, 259), (16, 18)),
            ((100, 1000), (256, 2560), (16, 1168)),
        ];
        for (size, resized, (top, left)) in cases {
            let least = least_size((224, 224), 1.143);
            assert_eq!((least, covering(size, least)), ((256, 256), resized), "{size:?}");
            let part = center_part(size, (224, 224), 1.143).expect("a part");
            let scale = [0, 1].map(|axis| {
                let [sides, resized] = [size, resized].map(|(h, w)| [h, w][axis] as f64);
                sides / resized
            });
            let expected = [f64::from(top) * scale[0], f64::from(left) * scale[1]];
            assert!((part.0.0 - expected[0]).abs() < 1e-9, "{size:?}: {part:?}");
            assert!((part.0.1 - expected[1]).abs() < 1e-9, "{size:?}: {part:?}");
            assert!((part.1.0 - 224.0 * scale[0]).abs() < 1e-9, "{size:?}: {part:?}");
            assert!((part.1.1 - 224.0 * scale[1]).abs() < 1e-9, "{size:?}: {part:?}");
        }
    }

    /// The central part of an image without resizing, by copying.
    fn cut(
        image: &Image<'_>,
        (top, left): (usize, usize),
        (rows, columns): (usize, usize),
    ) -> Vec<u8> {
        let row = |row: usize| &image.pixels()[3 * (row * image.width() + left)..][..3 * columns];
        (top..top + rows).flat_map(row).copied().collect()
    }

    #[test]
    fn one_step_gives_what_resizing_and_then_cutting_gives() {
        let mut random = Random::for_augment(5, 0, 0);
        for (size, crop, factor) in [
            ((37, 50), (22, 22), 1.143),
            ((50, 37), (22, 16), 1.25),
            ((12, 30), (22, 22), 1.5),
            ((64, 64), (16, 16), 1.0),
            ((20, 21), (20, 20), 1.0),
        ] {
            let (height, width) = size;
            let pixels: Vec<u8> =
                (0..3 * height * width).map(|_| random.below(256) as u8).collect();
            let image = Image::try_new(height, width, pixels).unwrap();
            let resized = covering(size, least_size(crop, factor));
            let first = |side: usize, crop: usize| {
                let margins = side - crop;
                margins / 2 + usize::from(margins % 4 == 3)
            };
            let corner = (first(resized.0, crop.0), first(resized.1, crop.1));
            let expected = cut(&image.clone().resize(resized.0, resized.1), corner, crop);
            let found = image.center_crop(crop.0, crop.1, factor);
            assert_eq!(found.size(), crop);
            for (found, expected) in found.pixels().iter().zip(&expected) {
                assert!(found.abs_diff(*expected) <= 1, "{size:?} {crop:?}: {found} {expected}");
            }
        }
    }

    #[test]
    fn an_image_of_the_size_without_margins_is_all_of_it() {
        assert_eq!(center_part((8, 8), (8, 8), 1.0), None);
        assert_eq!(center_part((16, 16), (8, 8), 1.0), None);
        let pixels = [7; 12];
        let image = Image::try_new(2, 2, &pixels[..]).unwrap().center_crop(2, 2, 1.0);
        assert_eq!(image.pixels().as_ptr(), pixels.as_ptr());
    }

    #[test]
    fn every_part_lies_in_its_image() {
        for height in 1..40 {
            for width in 1..40 {
                for (crop, factor) in [((7, 7), 1.0), ((8, 5), 1.143), ((3, 9), 2.0)] {
                    let Some(((top, left), (rows, columns))) =
                        center_part((height, width), crop, factor)
                    else {
                        continue;
                    };
                    let lies = |first: f64, part: f64, side: usize| {
                        first >= 0.0 && part > 0.0 && first + part <= side as f64
                    };
                    assert!(
                        lies(top, rows, height) && lies(left, columns, width),
                        "{height}x{width}"
                    );
                }
            }
        }
    }
}
