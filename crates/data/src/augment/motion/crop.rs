//! A part of a picture, resized to the picture's size.

use std::ops::Range;

use crate::pixels::Element;
use crate::raster::RasterSpec;
use crate::resample::Part;

/// A part of a picture, or of every slice of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crop {
    /// The first row.
    pub top: usize,
    /// The first column.
    pub left: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Columns, at least 1.
    pub columns: usize,
}

impl Crop {
    /// The same for [`resample`](crate::resample::resample).
    pub(crate) fn part(self) -> Part {
        let Self { top, left, rows, columns } = self;
        ((top as f64, left as f64), (rows as f64, columns as f64))
    }
}

/// Resizes a part of every slice of `[slices, height, width, channels]` to the slice's size:
/// bilinear, antialiased where it shrinks.
///
/// The filter is the triangle of `fast_image_resize`, which does the same for RGB of 8 bits; the
/// weights are computed in f64.
pub(in crate::augment) fn crop_resized<T: Element>(
    old: &[T],
    new: &mut [T],
    spec: &RasterSpec,
    crop: Crop,
) {
    let (height, width, channels) = (spec.height, spec.width, spec.channels);
    let rows = taps(crop.top, crop.rows, height);
    let columns = taps(crop.left, crop.columns, width);
    let stride = channels * width;
    let mut narrow = vec![0.0_f32; stride * height];
    let mut sums = vec![0.0_f32; stride];
    for (old, new) in old.chunks_exact(stride * height).zip(new.chunks_exact_mut(stride * height)) {
        // Along the rows first, of all rows that the second pass reads.
        let read = rows[0].places.start..rows[height - 1].places.end;
        for row in read {
            let old = &old[stride * row..][..stride];
            let narrow = &mut narrow[stride * row..][..stride];
            for (tap, narrow) in columns.iter().zip(narrow.chunks_exact_mut(channels)) {
                narrow.fill(0.0);
                for (place, &weight) in tap.places.clone().zip(&tap.weights) {
                    let pixel = &old[channels * place..][..channels];
                    for (sum, &value) in narrow.iter_mut().zip(pixel) {
                        *sum += weight * value.to_f32();
                    }
                }
            }
        }
        for (tap, new) in rows.iter().zip(new.chunks_exact_mut(stride)) {
            sums.fill(0.0);
            for (place, &weight) in tap.places.clone().zip(&tap.weights) {
                for (sum, &value) in sums.iter_mut().zip(&narrow[stride * place..][..stride]) {
                    *sum += weight * value;
                }
            }
            for (new, &sum) in new.iter_mut().zip(&sums) {
                *new = T::from_f32(sum);
            }
        }
    }
}

/// The same, but each pixel takes the pixel of the part in which its center lies.
pub(in crate::augment) fn crop_nearest<T: Copy>(
    old: &[T],
    new: &mut [T],
    spec: &RasterSpec,
    crop: Crop,
) {
    let (height, width, channels) = (spec.height, spec.width, spec.channels);
    // Twice the position of the center, in integers: (i + ½) · part / side.
    let nearest = |first: usize, part: usize, side: usize, at: usize| {
        first + (2 * at + 1) * part / (2 * side)
    };
    let stride = channels * width;
    let slice = stride * height;
    for (old, new) in old.chunks_exact(slice).zip(new.chunks_exact_mut(slice)) {
        for (row, new) in new.chunks_exact_mut(stride).enumerate() {
            let row = nearest(crop.top, crop.rows, height, row);
            for (column, new) in new.chunks_exact_mut(channels).enumerate() {
                let column = nearest(crop.left, crop.columns, width, column);
                new.copy_from_slice(&old[row * stride + channels * column..][..channels]);
            }
        }
    }
}

/// The pixels that one pixel of the result is a weighted mean of.
struct Taps {
    places: Range<usize>,
    weights: Vec<f32>,
}

/// For each pixel of a side, those of the part from which it is stretched.
fn taps(first: usize, part: usize, side: usize) -> Vec<Taps> {
    let scale = part as f64 / side as f64;
    let radius = scale.max(1.0);
    (0..side)
        .map(|at| {
            let center = first as f64 + (at as f64 + 0.5) * scale;
            let start = (center - radius).floor().max(0.0) as usize;
            let end = ((center + radius).ceil() as usize).min(side);
            let weight =
                |place: usize| (1.0 - (place as f64 + 0.5 - center).abs() / radius).max(0.0);
            let sum: f64 = (start..end).map(weight).sum();
            let weights = (start..end).map(|place| (weight(place) / sum) as f32).collect();
            Taps { places: start..end, weights }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixels::PixelType;
    use crate::random::Random;
    use crate::resample::resample;

    fn spec(pixel_type: PixelType, channels: usize, height: usize, width: usize) -> RasterSpec {
        RasterSpec { pixel_type, channels, depth: None, height, width }
    }

    #[test]
    fn every_part_is_within_one_level_of_the_library_for_rgb() {
        let mut random = Random::for_augment(3, 0, 0);
        let (height, width) = (13, 17);
        let spec = spec(PixelType::U8, 3, height, width);
        let old: Vec<u8> = (0..3 * height * width).map(|_| random.below(256) as u8).collect();
        let mut resizer = fast_image_resize::Resizer::new();
        for _ in 0..50 {
            let rows = 1 + random.below(height as u64) as usize;
            let columns = 1 + random.below(width as u64) as usize;
            let top = random.below((height - rows) as u64 + 1) as usize;
            let left = random.below((width - columns) as u64 + 1) as usize;
            let crop = Crop { top, left, rows, columns };
            let (mut ours, mut theirs) = (vec![0; old.len()], vec![0; old.len()]);
            crop_resized(&old, &mut ours, &spec, crop);
            let size = (height, width);
            resample(&mut resizer, (&old, size), Some(crop.part()), (&mut theirs, size));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(ours.abs_diff(*theirs) <= 1, "{crop:?}: {ours} {theirs}");
            }
        }
    }

    #[test]
    fn a_part_of_a_mask_keeps_its_labels() {
        let old = [1_u16, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let mut new = [0; 16];
        let crop = Crop { top: 1, left: 2, rows: 2, columns: 2 };
        crop_nearest(&old, &mut new, &spec(PixelType::U16, 1, 4, 4), crop);
        assert_eq!(new, [7, 7, 8, 8, 7, 7, 8, 8, 11, 11, 12, 12, 11, 11, 12, 12]);
    }

    #[test]
    fn the_whole_changes_nothing() {
        let old: Vec<f32> = (0..60).map(|at| (at as f32).sin()).collect();
        let mut new = vec![0.0; 60];
        let crop = Crop { top: 0, left: 0, rows: 3, columns: 4 };
        crop_resized(&old, &mut new, &spec(PixelType::F32, 5, 3, 4), crop);
        assert_eq!(new, old);
    }
}
