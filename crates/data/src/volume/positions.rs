//! Random foreground voxels, drawn with equal probability without keeping a mask.

use std::sync::Arc;

use crate::error::{DataError, VolumeError};
use crate::pixels::Pixels;
use crate::random::Random;
use crate::volume::source::passes;
use crate::volume::{Region, VolumeSource};

/// Patches that are centered on foreground or background instead of anywhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Foreground {
    /// The fraction of patches around a foreground voxel, 0 to 1; the others are around a
    /// background voxel.
    pub share: f32,
    /// Voxels whose target, in its first channel, is above this are foreground: 0 for a mask of
    /// labels.
    pub above: f32,
}

/// Cumulative counts of foreground voxels by row.
pub(super) struct Positions {
    target: Arc<dyn VolumeSource>,
    above: f32,
    sides: [usize; 3],
    /// Cumulative over the rows of all slices and frames.
    foreground: Vec<u64>,
}

impl Positions {
    /// Reads a target once; if it has classes, every label must be one of them.
    pub(super) fn scan(
        target: Arc<dyn VolumeSource>,
        above: f32,
        classes: Option<usize>,
    ) -> Result<Self, DataError> {
        let (spec, mut sum) = (*target.spec(), 0);
        let mut foreground =
            Vec::with_capacity(spec.frames * spec.raster.slices() * spec.raster.height);
        for region in passes(&spec, 8 << 20) {
            let raster = target.read(&region)?;
            let row_values = spec.raster.width * spec.raster.channels;
            let mut add = |count: usize| {
                sum += count as u64;
                foreground.push(sum);
            };
            let step = spec.raster.channels;
            match raster.pixels() {
                Pixels::U8(values) => {
                    check_labels(&*target, &region, values, classes)?;
                    let rows = values.chunks_exact(row_values);
                    rows.for_each(|row| add(count(row.iter().step_by(step), above)));
                }
                Pixels::U16(values) => {
                    check_labels(&*target, &region, values, classes)?;
                    let rows = values.chunks_exact(row_values);
                    rows.for_each(|row| add(count(row.iter().step_by(step), above)));
                }
                Pixels::F32(values) => {
                    let rows = values.chunks_exact(row_values);
                    rows.for_each(|row| add(count(row.iter().step_by(step), above)));
                }
            }
        }
        Ok(Self { target, above, sides: spec.sides(), foreground })
    }

    /// The number of foreground and of background voxels.
    pub(super) fn counts(&self) -> (u64, u64) {
        let foreground = self.foreground.last().copied().unwrap_or(0);
        (foreground, (self.foreground.len() * self.sides[2]) as u64 - foreground)
    }

    /// A random foreground or background voxel, uniformly distributed: its frame, slice, row and
    /// column. There must be one.
    pub(super) fn draw(
        &self,
        is_foreground: bool,
        random: &mut Random,
    ) -> Result<(usize, [usize; 3]), DataError> {
        let [slices, rows, columns] = self.sides;
        let up_to = |row: usize| match is_foreground {
            true => self.foreground[row],
            false => ((row + 1) * columns) as u64 - self.foreground[row],
        };
        let (foreground, background) = self.counts();
        let rank = random.below(if is_foreground { foreground } else { background });
        let (mut low, mut high) = (0, self.foreground.len() - 1);
        while low < high {
            let middle = low.midpoint(high);
            if up_to(middle) > rank { high = middle } else { low = middle + 1 }
        }
        let within = rank - if low == 0 { 0 } else { up_to(low - 1) };
        let (frame, slice, row) = (low / rows / slices, low / rows % slices, low % rows);
        let region = Region { frame, origin: [slice, row, 0], sides: [1, 1, columns] };
        let raster = self.target.read(&region)?;
        let step = raster.spec().channels;
        let nth = |is_above: &mut dyn Iterator<Item = bool>| {
            is_above
                .enumerate()
                .filter(|&(_, is_above)| is_above == is_foreground)
                .nth(within as usize)
                .map_or(0, |(column, _)| column)
        };
        let above = self.above;
        let column = match raster.pixels() {
            Pixels::U8(v) => nth(&mut v.iter().step_by(step).map(|&v| f32::from(v) > above)),
            Pixels::U16(v) => nth(&mut v.iter().step_by(step).map(|&v| f32::from(v) > above)),
            Pixels::F32(v) => nth(&mut v.iter().step_by(step).map(|&v| v > above)),
        };
        Ok((frame, [slice, row, column]))
    }
}

fn count<'a, T: Copy + Into<f32> + 'a>(values: impl Iterator<Item = &'a T>, above: f32) -> usize {
    values.filter(|&&value| value.into() > above).count()
}

/// Whether every label of a region is one of the classes.
pub(super) fn check_labels<T: Copy + Into<usize>>(
    volume: &dyn VolumeSource,
    region: &Region,
    labels: &[T],
    classes: Option<usize>,
) -> Result<(), VolumeError> {
    let Some(classes) = classes else { return Ok(()) };
    let Some(at) = labels.iter().position(|&label| label.into() >= classes) else { return Ok(()) };
    let [_, rows, columns] = region.sides;
    let [slice, row, column] = region.origin;
    let place = [
        region.frame,
        slice + at / columns / rows,
        row + at / columns % rows,
        column + at % columns,
    ];
    Err(VolumeError::Label { name: volume.name(), label: labels[at].into(), place, classes })
}
