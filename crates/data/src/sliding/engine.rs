//! Sliding-window inference, slab by slab.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Instant;

use crate::augment::Axis;
use crate::error::{DataError, VolumeError};
use crate::pixels::Pixels;
use crate::sliding::accumulate::Accumulator;
use crate::sliding::grid::Grid;
use crate::sliding::mirror::mirror;
use crate::sliding::planes::Planes;
use crate::sliding::{Reduction, SlidingWindow, WindowProgress};
use crate::volume::VolumeSource;

/// A batch of windows of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowBatch {
    /// The number of windows.
    pub windows: usize,
    /// Channels of each.
    pub channels: usize,
    /// The sides of each: `[height, width]` or `[depth, height, width]`.
    pub sides: Vec<usize>,
    /// `[windows, channels, …sides]`.
    pub values: Vec<f32>,
}

/// The error of a model.
pub type ModelError = Box<dyn Error + Send + Sync>;

/// A model: windows `[windows, channels, …sides]` to `[windows, any channels, …sides]`.
pub type WindowModel<'a> = dyn FnMut(WindowBatch) -> Result<Vec<f32>, ModelError> + 'a;

/// Receives finished planes: slices of a volume, rows of a picture.
pub(super) trait PlaneSink {
    /// Receives the model's number of channels, once, before the first plane.
    fn begin(&mut self, channels: usize) -> Result<(), DataError>;

    /// Takes the next plane, `[output channels, …]`.
    fn plane(&mut self, plane: &Pixels<'_>) -> Result<(), DataError>;

    /// Called after each slab.
    fn checkpoint(&mut self) -> Result<(), DataError>;
}

/// A prediction, starting at a plane.
pub(super) struct Engine<'a> {
    pub(super) sliding: &'a SlidingWindow,
    pub(super) reduction: Reduction,
    pub(super) input: &'a dyn VolumeSource,
    pub(super) model: &'a mut WindowModel<'a>,
    pub(super) progress: &'a mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
}

/// The settings shared by all slabs.
struct Layout {
    grids: [Grid; 3],
    weights: Vec<f32>,
    /// The axes of the input among the three.
    axes: Vec<usize>,
    /// Each combination of mirrored axes.
    mirrors: Vec<[bool; 3]>,
}

impl Layout {
    fn new(sliding: &SlidingWindow, input: &dyn VolumeSource) -> Self {
        let mut grids = sliding.grids(input.spec());
        // A picture is processed by rows: each plane is one row.
        let is_volume = grids.len() == 3;
        let axes = if is_volume { vec![0, 1, 2] } else { vec![0, 2] };
        if !is_volume {
            grids.insert(1, Grid::new(1, 1, 0.0));
        }
        let grids: [Grid; 3] = grids.try_into().expect("two or three axes");
        let weights = sliding.blend.weights([0, 1, 2].map(|axis| grids[axis].window), &axes);
        let mut mirrors = vec![[false; 3]];
        let mut mirrored = sliding.mirror.clone();
        mirrored.sort_unstable_by_key(|axis| *axis as u8);
        mirrored.dedup();
        for axis in mirrored {
            let axis = match axis {
                Axis::Depth => 0,
                Axis::Height => usize::from(is_volume),
                Axis::Width => 2,
            };
            for at in 0..mirrors.len() {
                let mut own = mirrors[at];
                own[axis] = true;
                mirrors.push(own);
            }
        }
        Self { grids, weights, axes, mirrors }
    }

    fn sides(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.grids[axis].window)
    }

    fn windows_of_slab(&self) -> Vec<[usize; 2]> {
        let [_, rows, columns] = &self.grids;
        let pair = |&row| columns.starts.iter().map(move |&column| [row, column]);
        rows.starts.iter().flat_map(pair).collect()
    }
}

impl Engine<'_> {
    /// Predicts the planes after the first `done` ones of all frames.
    pub(super) fn run(
        mut self,
        done_planes: usize,
        sink: &mut dyn PlaneSink,
    ) -> Result<(), DataError> {
        let spec = *self.input.spec();
        self.sliding.validate(spec.raster.sides().len())?;
        let layout = Layout::new(self.sliding, self.input);
        let windows = layout.windows_of_slab();
        let slabs = &layout.grids[0].starts;
        let (side, window) = (layout.grids[0].side, layout.grids[0].window);
        let started = Instant::now();
        let total = (spec.frames * slabs.len() * windows.len()) as u64;
        let mut report = WindowProgress { done: 0, total, here: 0, elapsed: started.elapsed() };
        let mut channels = None;
        for frame in 0..spec.frames {
            let first = done_planes.saturating_sub(frame * side).min(side);
            let mut planes = Planes::new(self.input, frame);
            let mut sums: Option<Accumulator> = None;
            for (slab, &start) in slabs.iter().enumerate() {
                // A slab that ends before the first requested plane is skipped.
                if first == side || (start + window <= first && slab + 1 < slabs.len()) {
                    report.done += windows.len() as u64;
                    continue;
                }
                let (inside, first_inside) = layout.grids[0].inside(start);
                planes.advance(first_inside..first_inside + inside.len())?;
                for group in windows.chunks(self.sliding.batch * self.sliding.batches) {
                    let starts: Vec<[usize; 3]> =
                        group.iter().map(|&[row, column]| [start, row, column]).collect();
                    let values = self.predict(&layout, &planes, &starts)?;
                    let count = values.len() / starts.len() / layout.weights.len();
                    if channels.is_none() {
                        sink.begin(count)?;
                        channels = Some(count);
                    }
                    let wanted = channels.unwrap_or(count);
                    self.check_output(&values, starts.len(), wanted, &layout)?;
                    let sums =
                        sums.get_or_insert_with(|| Accumulator::new(wanted, &layout.grids, first));
                    let each = values.chunks_exact(values.len() / starts.len());
                    for (starts, values) in starts.iter().zip(each) {
                        sums.add(&layout.grids, *starts, values, &layout.weights);
                    }
                    (report.done, report.here) =
                        (report.done + starts.len() as u64, report.here + starts.len() as u64);
                    report.elapsed = started.elapsed();
                    if (self.progress)(report).is_break() {
                        let (name, done) = (self.input.name(), report.done);
                        return Err(VolumeError::Stopped { name, done, total }.into());
                    }
                }
                let end = slabs.get(slab + 1).map_or(side, |&next| next);
                if let Some(sums) = &mut sums {
                    let (reduction, count) = (self.reduction, sums.channels());
                    sums.finish(end, |plane| sink.plane(&reduction.apply(plane, count)))?;
                }
                sink.checkpoint()?;
            }
        }
        Ok(())
    }

    /// The model's results for some windows, averaged over all combinations of mirrored axes.
    fn predict(
        &mut self,
        layout: &Layout,
        planes: &Planes<'_>,
        starts: &[[usize; 3]],
    ) -> Result<Vec<f32>, DataError> {
        let (sides, channels) = (layout.sides(), self.input.spec().raster.channels);
        let mut values = Vec::with_capacity(starts.len() * channels * layout.weights.len());
        for &starts in starts {
            planes.append_window(&layout.grids, starts, self.sliding.padding, &mut values);
        }
        let mut sum: Option<Vec<f32>> = None;
        for (at, &axes) in layout.mirrors.iter().enumerate() {
            let is_last = at + 1 == layout.mirrors.len();
            let mut own = if is_last { std::mem::take(&mut values) } else { values.clone() };
            mirror(&mut own, sides, axes);
            let batch = WindowBatch {
                windows: starts.len(),
                channels,
                sides: layout.axes.iter().map(|&axis| sides[axis]).collect(),
                values: own,
            };
            let result = (self.model)(batch);
            let mut result = result.map_err(|cause| self.failed(cause))?;
            let expected =
                sum.as_ref().map_or(0, |sum| sum.len() / layout.weights.len() / starts.len());
            self.check_output(&result, starts.len(), expected, layout)?;
            mirror(&mut result, sides, axes);
            match &mut sum {
                None => sum = Some(result),
                Some(sum) => sum.iter_mut().zip(&result).for_each(|(sum, own)| *sum += own),
            }
        }
        let mut sum = sum.expect("at least one way");
        if layout.mirrors.len() > 1 {
            let share = 1.0 / layout.mirrors.len() as f32;
            sum.iter_mut().for_each(|value| *value *= share);
        }
        Ok(sum)
    }

    /// Whether a model returned the expected number of channels for every window; 0 accepts any
    /// number of at least 1.
    fn check_output(
        &self,
        values: &[f32],
        windows: usize,
        channels: usize,
        layout: &Layout,
    ) -> Result<(), DataError> {
        let channel = windows * layout.weights.len();
        let fits = match channels {
            0 => !values.is_empty() && values.len().is_multiple_of(channel),
            channels => values.len() == channels * channel,
        };
        if fits {
            return Ok(());
        }
        let channels =
            if channels == 0 { "any number of".to_owned() } else { channels.to_string() };
        let sides = layout.sides();
        let cause = format!(
            "it returned {} values for {windows} windows; expected {channels} channels of {}x{}x{}",
            values.len(),
            sides[0],
            sides[1],
            sides[2]
        );
        Err(self.failed(cause.into()))
    }

    fn failed(&self, cause: ModelError) -> DataError {
        VolumeError::Model { name: self.input.name(), cause }.into()
    }
}
