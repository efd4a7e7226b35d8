//! The weights' gradient by Winograd's algorithm over a volume: slice by slice, every tap of the depth
//! at the points.

use super::transform::{POINTS, RESULTS, Squares, TAPS, Transform, TransformJob};
use super::volume::VolumeWinograd;
use crate::kernels::direct::WeightJob;
use crate::kernels::packing::by_pixel_of;

impl VolumeWinograd {
    /// Numbers that a thread keeps of a chunk, and of its work space, for
    /// [`add_gradient`](Self::add_gradient).
    pub(crate) fn gradient_lens(&self) -> [usize; 2] {
        [POINTS * POINTS * self.weight_pitch(), self.parts(self.filled()[1]).iter().sum()]
    }

    /// Adds the products of some slices of results to the sums of a thread,
    /// `[points][channels][depth][channels]`.
    pub(crate) fn add_gradient(
        &self,
        image: &[f32],
        dy: &[f32],
        slices: std::ops::Range<usize>,
        own: &mut [f32],
        kept: &mut [f32],
    ) {
        let [inputs, outputs] = self.filled();
        let [tile_rows, tile_columns] = self.tiles();
        let [image_len, points_len, gradient_len, _] = self.parts(outputs);
        let (pixels, own) = own.split_at_mut(image_len);
        let (points, own) = own.split_at_mut(points_len);
        let (gradients, dy_pixels) = own.split_at_mut(gradient_len);
        let [points_pitch, gradient_pitch] = self.pitches(outputs);
        for row in (0..tile_rows).step_by(self.strip) {
            let rows = self.strip.min(tile_rows - row);
            let tiles = rows * tile_columns;
            let offsets = self.offsets(tiles);
            let mut held = 0;
            for block in slices.clone().step_by(self.together) {
                let count = self.together.min(slices.end - block);
                held = self.advance(image, [block, row, rows], [held, count], pixels, points);
                for slice in 0..count {
                    let gradients = &mut gradients[slice * tiles * outputs..];
                    self.gradient_points(dy, block + slice, [row, rows], dy_pixels, gradients);
                }
                let [grid_rows, columns] =
                    if self.step == 1 { [1, count * tiles] } else { [count, tiles] };
                for (point, kept) in kept.chunks_exact_mut(self.weight_pitch()).enumerate() {
                    let job = WeightJob {
                        image: &points[point * points_pitch..][..points_pitch],
                        origin: 0,
                        runs: &offsets,
                        run_len: 1,
                        gradient: &gradients[point * gradient_pitch..][..gradient_pitch],
                        blocks: outputs / self.isa.lanes(),
                        rows: grid_rows,
                        columns,
                        row_step: self.step * tiles * inputs,
                        column_step: inputs,
                    };
                    job.run(self.isa, kept);
                }
            }
        }
    }

    /// Converts the sums of a thread to gradients of weights, `[channels][depth][3][3][channels]`,
    /// and returns whether all of them are finite.
    pub(crate) fn weight_gradients(&self, kept: &[f32], sums: &mut [f32]) -> bool {
        let (outputs, pitch) = (self.filled()[1], self.weight_pitch());
        let job = TransformJob {
            transform: Transform::WeightGradient,
            input: kept,
            count: [1, self.kernels()],
            channels: outputs,
            from: Squares { apart: [0, outputs], step: [POINTS * pitch, pitch] },
            to: Squares { apart: [0, TAPS * TAPS * outputs], step: [TAPS * outputs, outputs] },
        };
        job.run(self.isa, sums)
    }

    /// The points of the gradient of the results of some rows of tiles of a slice.
    fn gradient_points(
        &self,
        dy: &[f32],
        slice: usize,
        [row, rows]: [usize; 2],
        pixels: &mut [f32],
        points: &mut [f32],
    ) {
        let (filled, tiles) = (self.filled()[1], self.tiles());
        let [_, pitch] = self.pitches(filled);
        let [slices, height, width] = self.grid;
        let size = [rows * RESULTS, tiles[1] * RESULTS];
        let first = [(row * RESULTS) as isize, 0];
        let (channels, plane) = ([self.channels[1], filled], slices * height * width);
        let dy = &dy[slice * height * width..];
        by_pixel_of(self.isa, dy, plane, channels, [height, width], first, size, pixels);
        let job = TransformJob {
            transform: Transform::Gradient,
            input: pixels,
            count: [rows, tiles[1]],
            channels: filled,
            from: Squares {
                apart: [RESULTS * size[1] * filled, RESULTS * filled],
                step: [size[1] * filled, filled],
            },
            to: Squares { apart: [tiles[1] * filled, filled], step: [POINTS * pitch, pitch] },
        };
        job.run(self.isa, points);
    }
}
