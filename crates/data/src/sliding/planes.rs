//! The planes of a volume that the windows of one slab read.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::DataError;
use crate::pixels::{Element, Pixels};
use crate::sliding::grid::{Grid, Padding};
use crate::volume::{Region, VolumeSource};

/// Planes of one frame, as f32: slices of a volume, rows of a picture.
pub(super) struct Planes<'a> {
    source: &'a dyn VolumeSource,
    frame: usize,
    first: usize,
    /// `[channels, …]` of each plane.
    planes: VecDeque<Vec<f32>>,
}

impl<'a> Planes<'a> {
    pub(super) const fn new(source: &'a dyn VolumeSource, frame: usize) -> Self {
        Self { source, frame, first: 0, planes: VecDeque::new() }
    }

    /// Reads the missing planes of a range, and drops those before it.
    pub(super) fn advance(&mut self, range: Range<usize>) -> Result<(), DataError> {
        if self.first + self.planes.len() < range.start {
            self.planes.clear();
            self.first = range.start;
        }
        while self.first < range.start {
            self.planes.pop_front();
            self.first += 1;
        }
        // Few planes at a time: data is in memory twice while it is converted.
        let mut next = self.first + self.planes.len();
        let [slices, rows, columns] = self.source.spec().sides();
        let is_volume = self.source.spec().raster.depth.is_some();
        let plane_values = if is_volume { rows * columns } else { columns };
        let at_once = ((1 << 20) / plane_values).max(1);
        while next < range.end {
            let count = at_once.min(range.end - next);
            let (origin, sides) = if is_volume {
                ([next, 0, 0], [count, rows, columns])
            } else {
                ([0, next, 0], [slices, count, columns])
            };
            let raster = self.source.read(&Region { frame: self.frame, origin, sides })?;
            let channels = raster.spec().channels;
            for plane in 0..count {
                let values = plane * plane_values * channels..(plane + 1) * plane_values * channels;
                self.planes.push_back(match raster.pixels() {
                    Pixels::U8(all) => planar(&all[values], channels),
                    Pixels::U16(all) => planar(&all[values], channels),
                    Pixels::F32(all) => planar(&all[values], channels),
                });
            }
            next += count;
        }
        Ok(())
    }

    /// Appends a window: `[channels, …]`.
    pub(super) fn append_window(
        &self,
        grids: &[Grid; 3],
        starts: [usize; 3],
        padding: Padding,
        to: &mut Vec<f32>,
    ) {
        let constant = if let Padding::Constant(value) = padding { value } else { 0.0 };
        let (rows, columns) = (grids[1].side, grids[2].side);
        let (whole, first_column) = grids[2].inside(starts[2]);
        let channels = self.source.spec().raster.channels;
        for channel in 0..channels {
            for plane in 0..grids[0].window {
                let plane = grids[0].shown(starts[0], plane, padding);
                let plane = plane.map(|plane| &self.planes[plane - self.first]);
                for row in 0..grids[1].window {
                    let (Some(plane), Some(row)) = (plane, grids[1].shown(starts[1], row, padding))
                    else {
                        to.extend(std::iter::repeat_n(constant, grids[2].window));
                        continue;
                    };
                    let row = &plane[(channel * rows + row) * columns..][..columns];
                    if whole.len() == grids[2].window {
                        to.extend_from_slice(&row[first_column..][..whole.len()]);
                    } else {
                        let shown =
                            (0..grids[2].window).map(|at| grids[2].shown(starts[2], at, padding));
                        to.extend(shown.map(|at| at.map_or(constant, |at| row[at])));
                    }
                }
            }
        }
    }
}

fn planar<T: Element>(pixels: &[T], channels: usize) -> Vec<f32> {
    let channel = |channel| pixels.iter().skip(channel).step_by(channels).map(|v| v.to_f32());
    let mut planes = Vec::with_capacity(pixels.len());
    (0..channels).for_each(|at| planes.extend(channel(at)));
    planes
}
