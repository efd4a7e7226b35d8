//! The blocks of a convolution's outputs, and the pixels that they see.

use crate::kernels::conv::{ConvAxis, ConvGeometry, Shapes};

/// Positions of a block's outputs that are aimed at: the values of a chunk's functions at the pixels
/// that they see stay in cache.
const POSITIONS: usize = 256;

/// What positions of a product are a multiple of: the widest panel.
const PANEL: usize = 32;

/// A line's numbers are a multiple of it: the widest vector.
const VECTOR: usize = 16;

/// A spatial axis in blocks.
#[derive(Debug, Clone)]
struct Axis {
    own: ConvAxis,
    input: usize,
    output: usize,
    /// Outputs of a block.
    block: usize,
    /// Pixels of a phase that a block sees beyond its outputs.
    halo: usize,
    /// Distances of taps from multiples of the stride, each once.
    phases: Vec<usize>,
}

impl Axis {
    fn new(own: ConvAxis, [input, output]: [usize; 2]) -> Self {
        let taps = || (0..own.kernel).map(|tap| tap * own.dilation);
        let mut phases: Vec<usize> = taps().map(|at| at % own.stride).collect();
        phases.sort_unstable();
        phases.dedup();
        let halo = taps().map(|at| at / own.stride).max().unwrap_or(0);
        Self { own, input, output, block: 1, halo, phases }
    }

    /// Divides the outputs evenly into blocks of at most so many, and returns whether one has all.
    fn cut(&mut self, most: usize) -> bool {
        let blocks = self.output.div_ceil(most.max(1)).max(1);
        self.block = self.output.div_ceil(blocks).max(1);
        self.block == self.output
    }

    /// Pixels of a phase.
    const fn region(&self) -> usize {
        self.block + self.halo
    }

    const fn blocks(&self) -> usize {
        self.output.div_ceil(self.block)
    }

    /// The phase of a tap and its distance in pixels of the phase.
    fn tap(&self, tap: usize) -> [usize; 2] {
        let at = tap * self.own.dilation;
        let phase = self.phases.iter().position(|&phase| phase == at % self.own.stride);
        [phase.expect("every tap has a phase"), at / self.own.stride]
    }

    /// The pixel of the image at a position of a phase, if it is not padding.
    fn pixel(&self, position: usize, phase: usize) -> Option<usize> {
        let padded = position * self.own.stride + phase;
        padded.checked_sub(self.own.padding).filter(|&pixel| pixel < self.input)
    }
}

/// The partition of a convolution's outputs into blocks.
///
/// A line has a number for each pixel that a block sees. Pixels at one distance from multiples of the
/// strides lie side by side, so that those of a tap are the line from another place on; outputs lie
/// at the positions of the first tap's pixels, with gaps between the rows.
#[derive(Debug, Clone)]
pub(super) struct Region {
    shapes: Shapes,
    axes: [Axis; 3],
    /// Images of a block.
    images: usize,
    /// Positions from an image, a plane and a row to the next.
    pitch: [usize; 3],
    /// Numbers of a phase.
    segment: usize,
    /// Numbers of a line.
    line: usize,
    /// Where the pixels of each tap begin.
    taps: Vec<usize>,
}

/// A block: images and outputs of the three axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    first: [usize; 4],
    size: [usize; 4],
}

impl Block {
    /// Its images.
    pub(super) fn images(&self) -> std::ops::Range<usize> {
        self.first[0]..self.first[0] + self.size[0]
    }

    /// Its outputs of an image and channel, which lie side by side.
    pub(super) fn pixels(&self) -> usize {
        self.size[1..].iter().product()
    }
}

/// Neighboring pixels of an image and their places in a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) line: usize,
    /// Of the batch.
    pub(super) image: usize,
    pub(super) pixel: usize,
    pub(super) count: usize,
}

impl Region {
    pub(super) fn new(geometry: &ConvGeometry, shapes: Shapes) -> Self {
        let mut axes: [Axis; 3] = std::array::from_fn(|axis| {
            Axis::new(geometry.axes[axis], [shapes.input[axis], shapes.output[axis]])
        });
        let (mut images, mut positions) = (1, POSITIONS);
        let mut is_whole = true;
        for axis in axes.iter_mut().rev() {
            is_whole = axis.cut(if is_whole { positions } else { 1 }) && is_whole;
            positions /= axis.region();
        }
        if is_whole {
            images = positions.clamp(1, shapes.batch.max(1));
        }
        let [depth, height, width] = axes.each_ref().map(Axis::region);
        let pitch = [depth * height * width, height * width, width];
        let [dz, dy, dx] = axes.each_ref().map(|axis| axis.halo);
        let halo = dz * pitch[1] + dy * pitch[2] + dx;
        let mut region =
            Self { shapes, axes, images, pitch, segment: 0, line: 0, taps: Vec::new() };
        region.segment = (halo + region.most_positions()).next_multiple_of(VECTOR);
        let phases = region.axes.each_ref().map(|axis| axis.phases.len());
        // An odd number of cache lines, so that lines are in different sets of the cache.
        region.line = (region.segment * phases.iter().product::<usize>() / VECTOR) | 1;
        region.line *= VECTOR;
        let tap = |place: [usize; 3]| {
            let of = |axis: usize| region.axes[axis].tap(place[axis]);
            let [[pz, z], [py, y], [px, x]] = [0, 1, 2].map(of);
            let phase = (pz * phases[1] + py) * phases[2] + px;
            phase * region.segment + z * pitch[1] + y * pitch[2] + x
        };
        region.taps = geometry.places().map(tap).collect();
        region
    }

    /// Numbers of a line.
    pub(super) const fn line(&self) -> usize {
        self.line
    }

    /// Where the pixels of each tap begin in a line.
    pub(super) fn taps(&self) -> &[usize] {
        &self.taps
    }

    /// Positions of a whole block's outputs, with those that fill the last panel.
    pub(super) fn most_positions(&self) -> usize {
        let [z, y, x] = self.axes.each_ref().map(|axis| axis.block);
        self.positions_of([self.images, z, y, x])
    }

    /// Those of a block.
    pub(super) fn positions(&self, block: &Block) -> usize {
        self.positions_of(block.size)
    }

    fn positions_of(&self, [images, depth, height, width]: [usize; 4]) -> usize {
        let [image, plane, row] = self.pitch;
        let last = (images - 1) * image + (depth - 1) * plane + (height - 1) * row + width;
        last.next_multiple_of(PANEL)
    }

    /// Numbers from one channel's outputs to the next.
    pub(super) fn pitch(&self) -> usize {
        ((self.most_positions() / VECTOR) | 1) * VECTOR
    }

    /// Blocks of an image, or of the images of a block.
    pub(super) fn blocks_of_image(&self) -> usize {
        self.axes.iter().map(Axis::blocks).product()
    }

    /// Images of a block.
    pub(super) const fn images_of_block(&self) -> usize {
        self.images
    }

    /// All blocks: those of an image follow each other.
    pub(super) fn blocks(&self) -> usize {
        self.shapes.batch.div_ceil(self.images) * self.blocks_of_image()
    }

    pub(super) fn block(&self, index: usize) -> Block {
        let [_, y, x] = self.axes.each_ref().map(Axis::blocks);
        let of_image = self.blocks_of_image();
        let (image, within) = (index / of_image * self.images, index % of_image);
        let of = |axis: usize, at: usize| {
            let Axis { block, output, .. } = self.axes[axis];
            [at * block, block.min(output - at * block)]
        };
        let all = [
            [image, self.images.min(self.shapes.batch - image)],
            of(0, within / (y * x)),
            of(1, within / x % y),
            of(2, within % x),
        ];
        Block { first: all.map(|[first, _]| first), size: all.map(|[_, size]| size) }
    }

    /// Calls `run` for the pixels that a block sees, without padding.
    pub(super) fn for_pixels(&self, block: &Block, mut run: impl FnMut(Run)) {
        let [z, y, x] = &self.axes;
        let [image, z0, y0, x0] = block.first;
        let [images, depth, height, width] = block.size;
        let mut segment = 0;
        for &pz in &z.phases {
            for &py in &y.phases {
                for &px in &x.phases {
                    // From the first position that is no padding to the last.
                    let low = x.own.padding.saturating_sub(px).div_ceil(x.own.stride);
                    let high = (x.input + x.own.padding).saturating_sub(px).div_ceil(x.own.stride);
                    let first = low.saturating_sub(x0);
                    let end = high.saturating_sub(x0).min(width + x.halo);
                    for at in 0..images * (depth + z.halo) * (height + y.halo) {
                        let row = at % (height + y.halo);
                        let plane = at / (height + y.halo) % (depth + z.halo);
                        let of_block = at / (height + y.halo) / (depth + z.halo);
                        let (Some(own_z), Some(own_y)) =
                            (z.pixel(z0 + plane, pz), y.pixel(y0 + row, py))
                        else {
                            continue;
                        };
                        if first >= end {
                            continue;
                        }
                        let pixel = (x0 + first) * x.own.stride + px - x.own.padding;
                        let [of_image, of_plane, of_row] = self.pitch;
                        let place = of_block * of_image + plane * of_plane + row * of_row;
                        run(Run {
                            line: segment + place + first,
                            image: image + of_block,
                            pixel: (own_z * y.input + own_y) * x.input + pixel,
                            count: end - first,
                        });
                    }
                    segment += self.segment;
                }
            }
        }
    }

    /// Pixels of an image from one of a run to the next.
    pub(super) const fn step(&self) -> usize {
        self.axes[2].own.stride
    }

    /// Calls `run` for the rows of a block's outputs: their places among the positions, the image,
    /// the first pixel of the output and how many there are.
    pub(super) fn for_outputs(&self, block: &Block, mut run: impl FnMut(Run)) {
        let [image, z0, y0, x0] = block.first;
        let [images, depth, height, count] = block.size;
        let [_, rows, columns] = self.shapes.output;
        let [of_image, of_plane, of_row] = self.pitch;
        for of_block in 0..images {
            for plane in 0..depth {
                for row in 0..height {
                    run(Run {
                        line: of_block * of_image + plane * of_plane + row * of_row,
                        image: image + of_block,
                        pixel: ((z0 + plane) * rows + y0 + row) * columns + x0,
                        count,
                    });
                }
            }
        }
    }
}
