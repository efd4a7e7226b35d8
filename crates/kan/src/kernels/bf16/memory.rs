//! The work space of the passes, computed before they run.

use updraft_simd::{BF16_SQUARE, TILE_LANES, TILE_TERMS, Tile};

use super::plan::{Chunk, Plan, ROWS};
use super::scratch::OfThread;

const FLOAT: usize = size_of::<f32>();
const TILE: usize = size_of::<Tile>();

impl Plan {
    /// Bytes of a forward pass on so many threads.
    pub(crate) fn forward_bytes(&self, threads: usize) -> usize {
        let rows = self.rows.min(ROWS);
        let squares = rows.next_multiple_of(BF16_SQUARE);
        let steps = |chunk: Chunk| self.depth(chunk) / TILE_TERMS;
        let [depth, filled] = self.largest();
        let floats = rows * filled + depth * rows.max(self.outputs) + squares * self.columns();
        let left = squares / TILE_LANES * depth.div_ceil(TILE_TERMS);
        let tasks = self.chunks().count().max(self.rows.div_ceil(ROWS));
        let shared = self.panels() * self.chunks().map(steps).sum::<usize>();
        self.bytes(threads, tasks, [FLOAT * floats, left, shared])
    }

    /// Bytes of a backward pass to all gradients on so many threads.
    pub(crate) fn backward_bytes(&self, threads: usize) -> usize {
        let rows = self.rows.min(ROWS);
        let squares = rows.next_multiple_of(BF16_SQUARE);
        let [depth, filled] = self.largest();
        let steps = self.outputs.div_ceil(TILE_TERMS);
        let tiles_of = |chunk: Chunk| self.depth(chunk) / TILE_LANES * steps;
        let blocks = self.rows.div_ceil(ROWS);
        let floats = rows * filled + depth * squares.max(self.outputs) + depth * self.columns();
        let of_rows = depth / TILE_LANES * rows.div_ceil(TILE_TERMS);
        let left = of_rows.max(squares / TILE_LANES * steps);
        let of_parameters = blocks * self.panels() * (ROWS / TILE_TERMS);
        let shared = of_parameters.max(self.chunks().map(tiles_of).sum());
        let tasks = self.chunks().count().max(blocks);
        self.bytes(threads, tasks, [FLOAT * floats, left, shared])
    }

    /// Terms and inputs of the largest chunk.
    fn largest(&self) -> [usize; 2] {
        let first = self.chunks().next();
        first.map_or([0; 2], |chunk| [self.depth(chunk), chunk.filled])
    }

    fn bytes(&self, threads: usize, tasks: usize, [floats, left, shared]: [usize; 3]) -> usize {
        let spaces = threads * size_of::<OfThread>();
        spaces + threads.min(tasks) * (floats + TILE * left) + TILE * shared
    }
}
