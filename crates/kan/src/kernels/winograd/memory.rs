//! The work space of the passes, computed before they run.

use updraft_simd::winograd::{TAPS, spread};

use super::plan::{Plan, SQUARE};
use super::tiling::Tiling;

const FLOAT: usize = size_of::<f32>();

/// Numbers of the buffers of a thread's [`Space`](super::space::Space): columns, values, points,
/// products, results and lanes.
type Buffers = [usize; 6];

impl Plan {
    /// Bytes of a forward pass on so many threads.
    pub(crate) fn forward_bytes(&self, threads: usize) -> usize {
        let tiling = self.of_outputs();
        let (depth, outputs) = (self.depth(), self.outputs());
        let [window, results] = [tiling.window(), tiling.results()].map(area);
        let of_thread: Buffers = [
            window * self.lanes(),
            (window * depth).max(TAPS * TAPS * outputs.next_multiple_of(self.panel())),
            SQUARE * spread(tiling.tiles() * depth),
            SQUARE * spread(tiling.tiles() * outputs),
            results * outputs,
            0,
        ];
        let tasks = self.groups * self.blocks().max(tiling.all().count());
        FLOAT * (self.forward_len() + threads.min(tasks) * of_thread.iter().sum::<usize>())
    }

    /// Bytes of a backward pass to all gradients on so many threads, with so many trained parameters of
    /// a channel's functions.
    pub(crate) fn backward_bytes(&self, threads: usize, trained: usize) -> usize {
        let margin = if trained > 0 { self.padding } else { [0; 2] };
        let [of_inputs, of_outputs] =
            [self.input_gradient(self.of_inputs(margin), trained), self.weight_gradient()];
        let of_thread = of_inputs.iter().zip(of_outputs).map(|(&a, b)| a.max(b)).sum::<usize>();
        let shared = self.input_gradient_len().max(self.weight_gradient_len());
        let pieces = self.pieces_of_images().count();
        let tasks = pieces * self.groups * self.blocks();
        let sums = size_of::<f64>() * pieces * self.groups * self.channels[0] * trained;
        FLOAT * (shared + threads.min(tasks) * of_thread) + sums
    }

    fn input_gradient(&self, tiling: Tiling, trained: usize) -> Buffers {
        let (lanes, depth) = (self.lanes(), self.depth());
        let outputs = self.channels[1];
        let filled = outputs.next_multiple_of(lanes);
        let [window, results] = [tiling.window(), tiling.results()].map(area);
        [
            lanes * results.max(outputs),
            (window * filled).max(TAPS * TAPS * outputs * lanes),
            SQUARE * spread(tiling.tiles() * filled),
            SQUARE * spread(tiling.tiles() * depth),
            results * depth,
            trained * lanes + depth,
        ]
    }

    fn weight_gradient(&self) -> Buffers {
        let tiling = self.of_outputs();
        let (depth, outputs) = (self.depth(), self.outputs());
        let [window, results] = [tiling.window(), tiling.results()].map(area);
        [
            window * self.lanes(),
            window * depth,
            SQUARE * spread(tiling.tiles() * depth),
            SQUARE * spread(tiling.tiles() * outputs),
            (results * outputs).max(depth * TAPS * TAPS * outputs),
            0,
        ]
    }
}

/// Pixels of a height and width.
const fn area([height, width]: [usize; 2]) -> usize {
    height * width
}
