//! Mirroring along an axis.

use serde::{Deserialize, Serialize};

use crate::raster::RasterSpec;

/// An axis of a picture or a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// From slice to slice, of a volume.
    Depth,
    /// From row to row.
    Height,
    /// Along a row.
    Width,
}

/// Mirrors `[slices, height, width, channels]` along an axis.
pub(in crate::augment) fn flip<T: Copy>(pixels: &mut [T], spec: &RasterSpec, axis: Axis) {
    let row = spec.channels * spec.width;
    match axis {
        Axis::Depth => reverse(pixels, row * spec.height),
        Axis::Height => {
            pixels.chunks_exact_mut(row * spec.height).for_each(|slice| reverse(slice, row));
        }
        Axis::Width => pixels.chunks_exact_mut(row).for_each(|row| match spec.channels {
            1 => row.reverse(),
            3 => row.as_chunks_mut::<3>().0.reverse(),
            channels => reverse(row, channels),
        }),
    }
}

/// Reverses the order of parts of the given length.
fn reverse<T>(values: &mut [T], length: usize) {
    let total = values.len();
    for first in 0..total / length / 2 {
        let last = total - (first + 1) * length;
        let (front, back) = values.split_at_mut(last);
        front[first * length..][..length].swap_with_slice(&mut back[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixels::PixelType;

    #[test]
    fn each_axis_is_mirrored_alone_for_any_number_of_channels() {
        for channels in 1..=5 {
            let (depth, height, width) = (3, 2, 4);
            let pixel_type = PixelType::U16;
            let spec = RasterSpec { pixel_type, channels, depth: Some(depth), height, width };
            let value = |slice: usize, row: usize, column: usize, channel: usize| {
                (1000 * slice + 100 * row + 10 * column + channel) as u16
            };
            let volume = |place: &dyn Fn(usize, usize, usize) -> [usize; 3]| -> Vec<u16> {
                let mut values = Vec::new();
                for (slice, row) in (0..depth).flat_map(|s| (0..height).map(move |r| (s, r))) {
                    for column in 0..width {
                        let [s, r, c] = place(slice, row, column);
                        values.extend((0..channels).map(|channel| value(s, r, c, channel)));
                    }
                }
                values
            };
            let whole = volume(&|slice, row, column| [slice, row, column]);
            for (axis, expected) in [
                (Axis::Depth, volume(&|s, r, c| [depth - 1 - s, r, c])),
                (Axis::Height, volume(&|s, r, c| [s, height - 1 - r, c])),
                (Axis::Width, volume(&|s, r, c| [s, r, width - 1 - c])),
            ] {
                let mut pixels = whole.clone();
                flip(&mut pixels, &spec, axis);
                assert_eq!(pixels, expected, "{axis:?}, {channels} channels");
            }
        }
    }
}
