//! Pixels that become blocks of pixels.

use updraft_simd::{Uneven, over, threads};

use super::scratch::Scratch;

/// From `[batch, height, width, rows of a block, columns of a block, channels]` to
/// `[batch, height · rows, width · columns, channels]`: codes move, and none changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuantizedDepthToSpace {
    channels: usize,
    from: [usize; 2],
    block: usize,
}

impl QuantizedDepthToSpace {
    /// For images of one size, `[height, width]`.
    pub(crate) const fn new(channels: usize, from: [usize; 2], block: usize) -> Self {
        Self { channels, from, block }
    }

    /// Moves the codes of all images of `x`.
    ///
    /// # Panics
    /// If a slice holds no whole number of images, or the two differ in length.
    pub(crate) fn run(&self, x: &[u8], y: &mut [u8], scratch: &mut Scratch, asked_threads: usize) {
        let Self { channels, from: [height, width], block } = *self;
        let (of_row, of_pixel) = (block * channels, block * block * channels);
        assert_eq!(x.len(), y.len(), "as many codes of the output as of the input");
        assert!(x.len().is_multiple_of(height * width * of_pixel), "whole images of the input");
        if x.is_empty() {
            return;
        }
        let (_, states) = scratch.split(0, threads(asked_threads), 0, 0);
        let line = width * of_row;
        let pieces = Uneven::new(y, x.len() / line, |item| item * line);
        over(pieces, states, |item, y, _| {
            let pixels = &x[item / block * width * of_pixel..][..width * of_pixel];
            let at = item % block * of_row;
            for (pixel, y) in pixels.chunks_exact(of_pixel).zip(y.chunks_exact_mut(of_row)) {
                y.copy_from_slice(&pixel[at..at + of_row]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixels_codes_become_the_rows_of_its_block() {
        // Two channels, blocks of 2 × 2, an image of one row of two pixels.
        let blocks = QuantizedDepthToSpace::new(2, [1, 2], 2);
        let x: Vec<u8> = (0..32).collect();
        let expected = [
            [0, 1, 2, 3, 8, 9, 10, 11],
            [4, 5, 6, 7, 12, 13, 14, 15],
            [16, 17, 18, 19, 24, 25, 26, 27],
            [20, 21, 22, 23, 28, 29, 30, 31],
        ];
        for threads in [1, 3] {
            let mut y = [0; 32];
            blocks.run(&x, &mut y, &mut Scratch::new(), threads);
            assert_eq!(y, *expected.as_flattened(), "{threads} threads");
        }
    }
}
