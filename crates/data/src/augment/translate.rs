//! Moving the picture.

use crate::augment::Canvas;
use crate::image::Image;
use crate::random::Random;

/// Moves the picture by up to `max_pixels` in each direction, and mirrors it at its edges to
/// fill what the move uncovers (the edge pixel itself is not repeated).
///
/// Each of the `2 · max_pixels + 1` moves is equally likely, down and right alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translate {
    /// The longest move; below both sides of the image.
    pub max_pixels: usize,
}

impl Translate {
    pub(crate) fn apply(self, random: &mut Random, canvas: &mut Canvas) {
        let moves = 2 * self.max_pixels as u64 + 1;
        let mut draw = || random.below(moves) as isize - self.max_pixels as isize;
        let (down, right) = (draw(), draw());
        shift(canvas, down, right);
    }
}

fn shift(canvas: &mut Canvas, down: isize, right: isize) {
    if (down, right) == (0, 0) {
        return;
    }
    let (height, width) = canvas.size();
    let stride = Image::CHANNELS * width;
    // The columns that stay inside are one copy; only the uncovered ones are mirrored singly.
    let shown = right.max(0) as usize..(width as isize + right.min(0)) as usize;
    let from = (shown.start as isize - right) as usize;
    canvas.redraw(|old, new| {
        for (row, new) in new.chunks_exact_mut(stride).enumerate() {
            let old = &old[stride * mirror(row as isize - down, height)..][..stride];
            let bytes = Image::CHANNELS * shown.start..Image::CHANNELS * shown.end;
            let count = bytes.len();
            new[bytes].copy_from_slice(&old[Image::CHANNELS * from..][..count]);
            for column in (0..shown.start).chain(shown.end..width) {
                let mirrored = mirror(column as isize - right, width);
                for channel in 0..Image::CHANNELS {
                    new[Image::CHANNELS * column + channel] =
                        old[Image::CHANNELS * mirrored + channel];
                }
            }
        }
    });
}

/// The pixel that a position up to `length − 1` beyond either edge shows.
fn mirror(position: isize, length: usize) -> usize {
    let last = length as isize - 1;
    let inside = if position < 0 { -position } else { position };
    (if inside > last { 2 * last - inside } else { inside }) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn what_a_move_uncovers_mirrors_the_picture_without_its_edge() {
        let cases = [
            (0, 0, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            (0, 1, [2, 1, 2, 5, 4, 5, 8, 7, 8]),
            (0, -1, [2, 3, 2, 5, 6, 5, 8, 9, 8]),
            (0, 2, [3, 2, 1, 6, 5, 4, 9, 8, 7]),
            (1, 0, [4, 5, 6, 1, 2, 3, 4, 5, 6]),
            (-2, 0, [7, 8, 9, 4, 5, 6, 1, 2, 3]),
            (-1, 1, [5, 4, 5, 8, 7, 8, 5, 4, 5]),
        ];
        for (down, right, expected) in cases {
            let mut canvas = Canvas::gray(3, 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
            shift(&mut canvas, down, right);
            for channel in 0..3 {
                assert_eq!(canvas.channel(channel), expected, "{down} {right}");
            }
        }
    }

    #[test]
    fn every_move_is_drawn_equally_often() {
        // The center pixel's value names the move; max_pixels 1 leaves all nine inside.
        let mut seen = [0; 9];
        for item in 0..9000 {
            let mut canvas = Canvas::gray(3, 3, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
            let mut random = Random::new(Purpose::Augment, 2, 1, item);
            Translate { max_pixels: 1 }.apply(&mut random, &mut canvas);
            seen[usize::from(canvas.channel(0)[4])] += 1;
        }
        // Four standard deviations of 9000 draws with chance 1/9 are 119.
        assert!(seen.iter().all(|&count: &i32| (count - 1000).abs() < 119), "{seen:?}");
    }

    #[test]
    fn the_first_moves_are_golden() {
        let centers: Vec<u8> = (0..6)
            .map(|item| {
                let values: Vec<u8> = (0..25).collect();
                let mut canvas = Canvas::gray(5, 5, &values);
                let mut random = Random::new(Purpose::Augment, 7, 0, item);
                Translate { max_pixels: 2 }.apply(&mut random, &mut canvas);
                canvas.channel(0)[12]
            })
            .collect();
        assert_eq!(centers, [19, 7, 0, 12, 22, 18]);
    }
}
