//! Redrawing a picture from places between its pixels.

use crate::augment::Canvas;
use crate::image::Image;

/// Redraws the picture: each pixel shows the place that `from` names for it, interpolated
/// bilinearly; places outside mirror the picture at its edges (the edge pixel is not repeated).
///
/// Places are counted down and right from the center, in pixels.
pub(super) fn redraw(canvas: &mut Canvas, from: impl Fn(f32, f32) -> (f32, f32)) {
    let (height, width) = canvas.size();
    let center = |side: usize| (side as f32 - 1.0) / 2.0;
    let (middle_row, middle_column) = (center(height), center(width));
    let stride = Image::CHANNELS * width;
    canvas.redraw(|old, new| {
        for (row, new) in new.chunks_exact_mut(stride).enumerate() {
            for (column, new) in new.chunks_exact_mut(Image::CHANNELS).enumerate() {
                let (down, right) = from(row as f32 - middle_row, column as f32 - middle_column);
                let (top, bottom, below) = neighbors(down + middle_row, height);
                let (left, right, beside) = neighbors(right + middle_column, width);
                for (channel, new) in new.iter_mut().enumerate() {
                    let at = |row: usize, column: usize| {
                        f32::from(old[row * stride + Image::CHANNELS * column + channel])
                    };
                    let upper = at(top, left) + beside * (at(top, right) - at(top, left));
                    let lower = at(bottom, left) + beside * (at(bottom, right) - at(bottom, left));
                    *new = (upper + below * (lower - upper)).round() as u8;
                }
            }
        }
    });
}

/// The two pixels around a place, and how far it is from the first to the second.
fn neighbors(place: f32, side: usize) -> (usize, usize, f32) {
    let first = place.floor();
    (mirror(first as i64, side), mirror(first as i64 + 1, side), place - first)
}

/// The pixel that a position anywhere shows when the picture is mirrored again and again.
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
