//! Resampling a picture at positions between its pixels.

use crate::pixels::Element;
use crate::raster::RasterSpec;

/// Resamples every slice of `[slices, height, width, channels]`: each pixel takes its value,
/// interpolated bilinearly, from the position that `from` returns for it; positions outside are
/// mirrored at the edges (the edge pixel is not repeated).
///
/// Positions are pixels down and right from the center.
pub(in crate::augment) fn remap<T: Element>(
    old: &[T],
    new: &mut [T],
    spec: &RasterSpec,
    from: &impl Fn(f32, f32) -> (f32, f32),
) {
    let slice = spec.channels * spec.height * spec.width;
    let size = (spec.height, spec.width);
    for (old, new) in old.chunks_exact(slice).zip(new.chunks_exact_mut(slice)) {
        // A number of channels that is known at compile time is a quarter faster.
        match spec.channels {
            1 => remap_slice(old, new, size, 1, from),
            3 => remap_slice(old, new, size, 3, from),
            channels => remap_slice(old, new, size, channels, from),
        }
    }
}

#[inline(always)]
fn remap_slice<T: Element>(
    old: &[T],
    new: &mut [T],
    (height, width): (usize, usize),
    channels: usize,
    from: &impl Fn(f32, f32) -> (f32, f32),
) {
    let (middle_row, middle_column) = (center(height), center(width));
    let stride = channels * width;
    for (row, new) in new.chunks_exact_mut(stride).enumerate() {
        for (column, new) in new.chunks_exact_mut(channels).enumerate() {
            let (down, right) = from(row as f32 - middle_row, column as f32 - middle_column);
            let (top, bottom, below) = neighbors(down + middle_row, height);
            let (left, right, beside) = neighbors(right + middle_column, width);
            for (channel, new) in new.iter_mut().enumerate() {
                let at = |row: usize, column: usize| {
                    old[row * stride + channels * column + channel].to_f32()
                };
                let upper = at(top, left) + beside * (at(top, right) - at(top, left));
                let lower = at(bottom, left) + beside * (at(bottom, right) - at(bottom, left));
                *new = T::from_f32(upper + below * (lower - upper));
            }
        }
    }
}

/// The same with the nearest pixel instead of interpolation.
pub(in crate::augment) fn remap_nearest<T: Copy>(
    old: &[T],
    new: &mut [T],
    spec: &RasterSpec,
    from: &impl Fn(f32, f32) -> (f32, f32),
) {
    let (height, width, channels) = (spec.height, spec.width, spec.channels);
    let (middle_row, middle_column) = (center(height), center(width));
    let stride = channels * width;
    let slice = stride * height;
    for (old, new) in old.chunks_exact(slice).zip(new.chunks_exact_mut(slice)) {
        for (row, new) in new.chunks_exact_mut(stride).enumerate() {
            for (column, new) in new.chunks_exact_mut(channels).enumerate() {
                let (down, right) = from(row as f32 - middle_row, column as f32 - middle_column);
                let row = mirror((down + middle_row).round() as i64, height);
                let column = mirror((right + middle_column).round() as i64, width);
                new.copy_from_slice(&old[row * stride + channels * column..][..channels]);
            }
        }
    }
}

fn center(side: usize) -> f32 {
    (side as f32 - 1.0) / 2.0
}

/// The two pixels around a position, and its fraction of the way between them.
fn neighbors(place: f32, side: usize) -> (usize, usize, f32) {
    let first = place.floor();
    (mirror(first as i64, side), mirror(first as i64 + 1, side), place - first)
}

/// The pixel at any position of a picture that is mirrored repeatedly.
fn mirror(position: i64, side: usize) -> usize {
    let last = side as i64 - 1;
    if last == 0 {
        return 0;
    }
    let inside = position.rem_euclid(2 * last);
    (if inside > last { 2 * last - inside } else { inside }) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_mirrored_without_repeating_its_ends() {
        let shown: Vec<usize> = (-5..8).map(|position| mirror(position, 3)).collect();
        assert_eq!(shown, [1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(mirror(-7, 1), 0);
    }
}
