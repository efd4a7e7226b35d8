//! The tiles of a grid of results, in boxes whose points stay in cache.

use std::ops::Range;

use updraft_simd::winograd::{RESULTS, TAPS};

/// Tiles of a box at most. With more, points and products of many channels leave the second-level
/// cache; with fewer, coefficients are read more often.
const TILES: usize = 24;

/// The partition of the results of a batch, of a group of channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiling {
    batch: usize,
    /// Images of a box.
    images: usize,
    /// Rows and columns of tiles of an image.
    count: [usize; 2],
    /// Those of a box.
    cut: [usize; 2],
}

/// Rows of tiles of some images.
#[derive(Debug, Clone)]
pub(super) struct Strip {
    pub(super) images: Range<usize>,
    pub(super) rows: Range<usize>,
}

/// Some tiles of a strip: rows and columns of each of its images.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileBox {
    /// The first row and column of tiles.
    first: [usize; 2],
    pub(super) size: [usize; 2],
}

/// The part of a box's results that is written to planes.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Rows and columns of the results.
    pub(super) of_box: [Range<usize>; 2],
    /// The row and column of the first in the planes.
    pub(super) to: [usize; 2],
}

impl Tiling {
    pub(super) fn new(batch: usize, grid: [usize; 2]) -> Self {
        let count = grid.map(|size| size.div_ceil(RESULTS));
        let columns = even(count[1], TILES);
        let rows = even(count[0], TILES / columns);
        let is_whole = [rows, columns] == count;
        let images = if is_whole { TILES / (rows * columns) } else { 1 };
        Self { batch, images: images.clamp(1, batch.max(1)), count, cut: [rows, columns] }
    }

    /// Images of a box.
    pub(super) const fn images(&self) -> usize {
        self.images
    }

    /// Tiles of a box at most.
    pub(super) const fn tiles(&self) -> usize {
        self.images * self.cut[0] * self.cut[1]
    }

    /// Height and width of the results of a box at most.
    pub(super) const fn results(&self) -> [usize; 2] {
        [self.cut[0] * RESULTS, self.cut[1] * RESULTS]
    }

    /// Height and width of the pixels that they see.
    pub(super) const fn window(&self) -> [usize; 2] {
        let [height, width] = self.results();
        [height + TAPS - 1, width + TAPS - 1]
    }

    /// Rows of results of a strip.
    pub(super) const fn rows_of_strip(&self) -> usize {
        self.cut[0] * RESULTS
    }

    /// Strips of an image, or of images in a box.
    pub(super) const fn strips_of_image(&self) -> usize {
        self.count[0].div_ceil(self.cut[0])
    }

    /// All strips of some images, which begin with those of a box; those of an image follow each
    /// other.
    pub(super) fn strips(&self, images: Range<usize>) -> impl Iterator<Item = Strip> + use<> {
        let Self { images: together, count, cut, .. } = *self;
        images.clone().step_by(together).flat_map(move |first| {
            let images = first..(first + together).min(images.end);
            (0..count[0]).step_by(cut[0]).map(move |row| Strip {
                images: images.clone(),
                rows: row..(row + cut[0]).min(count[0]),
            })
        })
    }

    /// The strips of the batch.
    pub(super) fn all(&self) -> impl Iterator<Item = Strip> + use<> {
        self.strips(0..self.batch)
    }

    /// The boxes of a strip.
    pub(super) fn boxes(&self, strip: &Strip) -> impl Iterator<Item = TileBox> + use<> {
        let Self { count, cut, .. } = *self;
        let rows = strip.rows.clone();
        (0..count[1]).step_by(cut[1]).map(move |column| {
            let first = [rows.start, column];
            let size = [rows.len(), cut[1].min(count[1] - column)];
            TileBox { first, size }
        })
    }
}

impl TileBox {
    /// Tiles of an image.
    pub(super) const fn tiles(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// The first row and column of the results.
    pub(super) fn start(&self) -> [usize; 2] {
        self.first.map(|tile| tile * RESULTS)
    }

    /// Height and width of all results of the tiles.
    pub(super) fn results(&self) -> [usize; 2] {
        self.size.map(|tiles| tiles * RESULTS)
    }

    /// Height and width of the pixels that they see.
    pub(super) fn window(&self) -> [usize; 2] {
        self.results().map(|size| size + TAPS - 1)
    }

    /// The results of planes of a size, in a grid with a margin around them.
    pub(super) fn part(&self, size: [usize; 2], margin: [usize; 2]) -> Part {
        let (start, results) = (self.start(), self.results());
        let of_box = [0, 1].map(|axis| {
            let before = margin[axis].saturating_sub(start[axis]).min(results[axis]);
            let end = (size[axis] + margin[axis]).saturating_sub(start[axis]);
            before..end.min(results[axis]).max(before)
        });
        let to = [0, 1].map(|axis| (start[axis] + of_box[axis].start).saturating_sub(margin[axis]));
        Part { of_box, to }
    }

    /// The first row and column of these, if the first result sees the pixel `before` rows and columns
    /// before its own.
    pub(super) fn first_seen(&self, before: [isize; 2]) -> [isize; 2] {
        let start = self.start();
        [0, 1].map(|axis| start[axis] as isize - before[axis])
    }
}

/// Parts of nearly equal size with at most so many.
fn even(count: usize, most: usize) -> usize {
    let most = most.max(1);
    count.div_ceil(count.div_ceil(most).max(1)).max(1)
}
