//! The settings of sliding-window inference.

use serde::{Deserialize, Serialize};

use crate::augment::Axis;
use crate::digest::Digest;
use crate::error::DataError;
use crate::sliding::grid::Grid;
use crate::sliding::{Blend, Padding};
use crate::volume::VolumeSpec;

/// The largest overlap: up to 20 windows along each axis have a place in common, 8000 in a volume.
/// With one that is nearly 1 a window begins at every place, and a prediction does not end.
const MOST_OVERLAP: f64 = 0.95;

/// Applies a model that takes windows to a whole picture or volume.
///
/// Windows, steps, padding and weights are those of MONAI 1.6.1's `sliding_window_inference`, and
/// results agree with it within 1e-5 (`crates/data/tests/it/sliding.rs`).
///
/// # Memory
/// Windows move along the first axis, and finished planes are written: besides the model and a
/// batch of windows, a prediction takes `4 · (input channels + output channels + 1)` bytes for each
/// voxel of a slab, which is as thick as a window and as wide as the volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SlidingWindow {
    /// The sides of a window, without channels; 0 means the whole axis. A volume that is smaller is
    /// padded.
    pub window: Vec<usize>,
    /// The overlap of neighboring windows as a fraction of the window's side, at least 0 and at
    /// most 0.95: one for all axes, or one each.
    pub overlap: Vec<f64>,
    /// The batch size of the model, at least 1.
    pub batch: usize,
    /// Batches that the model gets in one call, at least 1: several for a model that divides them
    /// among processes. They change no result, and are not stored.
    #[serde(skip, default = "one")]
    pub batches: usize,
    /// The weights of overlapping windows.
    pub blend: Blend,
    /// The padding of a volume that is smaller than the window.
    pub padding: Padding,
    /// Axes for test-time augmentation by mirroring; the results of all `2ⁿ` combinations are
    /// averaged.
    pub mirror: Vec<Axis>,
    /// What the sides of a window must be multiples of, such as the stride of a U-Net: one for all
    /// axes, or one each.
    pub multiple_of: Vec<usize>,
}

impl SlidingWindow {
    /// Windows of the given sides: overlap 0.25, batch size 1, Gaussian weights with a standard
    /// deviation of an eighth of the side, zero padding.
    #[must_use]
    pub fn new(window: &[usize]) -> Self {
        Self {
            window: window.to_vec(),
            overlap: vec![0.25],
            batch: 1,
            batches: 1,
            blend: Blend::Gaussian { sigma: vec![0.125] },
            padding: Padding::Constant(0.0),
            mirror: Vec::new(),
            multiple_of: vec![1],
        }
    }

    /// Sets the overlap, for all axes or for each.
    #[must_use]
    pub fn with_overlap(mut self, shares: &[f64]) -> Self {
        self.overlap = shares.to_vec();
        self
    }

    /// Sets the batch size of the model.
    #[must_use]
    pub const fn with_batch(mut self, windows: usize) -> Self {
        self.batch = windows;
        self
    }

    /// Sets the batches that the model gets in one call.
    #[must_use]
    pub const fn with_batches(mut self, batches: usize) -> Self {
        self.batches = batches;
        self
    }

    /// Sets the weights of overlapping windows.
    #[must_use]
    pub fn with_blend(mut self, blend: Blend) -> Self {
        self.blend = blend;
        self
    }

    /// Sets the padding of a volume that is smaller than the window.
    #[must_use]
    pub const fn with_padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Sets the axes for test-time augmentation by mirroring.
    #[must_use]
    pub fn with_mirror(mut self, axes: &[Axis]) -> Self {
        self.mirror = axes.to_vec();
        self
    }

    /// Sets what the sides of a window must be multiples of, for all axes or for each.
    #[must_use]
    pub fn with_multiple_of(mut self, strides: &[usize]) -> Self {
        self.multiple_of = strides.to_vec();
        self
    }

    /// Checks the ranges of all settings, for pictures (2 axes) or volumes (3).
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self, axes: usize) -> Result<(), DataError> {
        let fault = |name, value: String, expected: String| {
            Err(DataError::Setting { name, value, expected })
        };
        if self.window.len() != axes {
            let expected = format!("{axes} sides, as the input has");
            return fault("window", format!("{:?}", self.window), expected);
        }
        let count = |length: usize| length == 1 || length == axes;
        let counts = format!("one number, or {axes}");
        if !count(self.overlap.len())
            || self.overlap.iter().any(|share| !(0.0..=MOST_OVERLAP).contains(share))
        {
            let expected = format!("0 to {MOST_OVERLAP}: {counts}");
            return fault("overlap", format!("{:?}", self.overlap), expected);
        }
        if self.batch == 0 {
            return fault("batch", "0".to_owned(), "at least 1".to_owned());
        }
        if self.batches == 0 {
            return fault("batches", "0".to_owned(), "at least 1".to_owned());
        }
        if let Blend::Gaussian { sigma } = &self.blend
            && (!count(sigma.len()) || sigma.iter().any(|s| !(*s > 0.0 && s.is_finite())))
        {
            return fault("sigma", format!("{sigma:?}"), format!("finite and above 0: {counts}"));
        }
        if let Padding::Constant(value) = self.padding
            && !value.is_finite()
        {
            return fault("padding", value.to_string(), "a finite number".to_owned());
        }
        if axes == 2 && self.mirror.contains(&Axis::Depth) {
            return fault("mirror", "depth".to_owned(), "axes that the input has".to_owned());
        }
        if !count(self.multiple_of.len()) || self.multiple_of.contains(&0) {
            let expected = format!("at least 1: {counts}");
            return fault("multiple_of", format!("{:?}", self.multiple_of), expected);
        }
        let names = &["depth", "height", "width"][3 - axes..];
        for (axis, &window) in self.window.iter().enumerate() {
            let stride = of_axis(&self.multiple_of, axis);
            if !window.is_multiple_of(stride) {
                let expected = format!(
                    "a {} that is a multiple of {stride}, the network's stride, such as {}",
                    names[axis],
                    window.next_multiple_of(stride)
                );
                return fault("window", format!("{:?}", self.window), expected);
            }
        }
        Ok(())
    }

    /// The windows along each axis of a checked volume.
    pub(super) fn grids(&self, spec: &VolumeSpec) -> Vec<Grid> {
        let sides = spec.raster.sides();
        let grid = |(axis, &side): (usize, &usize)| {
            // A whole axis is rounded up to the network's multiple.
            let window = match self.window[axis] {
                0 => side.next_multiple_of(of_axis(&self.multiple_of, axis)),
                window => window,
            };
            Grid::new(side, window, of_axis(&self.overlap, axis))
        };
        sides.iter().enumerate().map(grid).collect()
    }

    pub(super) fn describe(&self, digest: Digest) -> Digest {
        digest.text(&format!("{:?}", self.clone().with_batches(1)))
    }
}

const fn one() -> usize {
    1
}

fn of_axis<T: Copy>(numbers: &[T], axis: usize) -> T {
    numbers[axis.min(numbers.len() - 1)]
}
