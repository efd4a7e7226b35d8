//! A model that sees windows, applied to a whole picture or volume.

use std::array;
use std::ops::Range;

use burn::tensor::{DType, Tensor, TensorData};

use crate::error::DataError;
use crate::patch::window::starts;

/// How a model that sees windows is applied to a whole picture or volume.
///
/// Windows overlap, and where they do their results are averaged with weights that fall from a
/// window's center like a Gaussian, so that no seam shows where one window ends.
///
/// # Source
/// The weights are those of F. Isensee et al., "nnU-Net", 2021, supplementary note 2: standard
/// deviation an eighth of the window's side.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SlidingWindow {
    /// The sides of a window, channels not counted; a longer one is cut to the picture's side.
    pub window: Vec<usize>,
    /// How much of a window's side the next one covers again; 0 to below 1.
    pub overlap: f32,
    /// Windows that the model sees at once, at least 1.
    pub batch: usize,
    /// The standard deviation of the weights, as a share of the window's side; above 0.
    pub sigma: f32,
}

impl SlidingWindow {
    /// Windows of the given sides: half overlapping, one at a time, weights with a standard
    /// deviation of an eighth of the side.
    #[must_use]
    pub fn new(window: &[usize]) -> Self {
        Self { window: window.to_vec(), overlap: 0.5, batch: 1, sigma: 0.125 }
    }

    /// Sets how much of a window the next one covers again.
    #[must_use]
    pub const fn with_overlap(mut self, share: f32) -> Self {
        self.overlap = share;
        self
    }

    /// Sets how many windows the model sees at once.
    #[must_use]
    pub const fn with_batch(mut self, windows: usize) -> Self {
        self.batch = windows;
        self
    }

    /// Sets the standard deviation of the weights as a share of the window's side.
    #[must_use]
    pub const fn with_sigma(mut self, share: f32) -> Self {
        self.sigma = share;
        self
    }

    /// Checks every number that has a range.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range.
    pub fn validate(&self) -> Result<(), DataError> {
        let fault = |name, value: String, expected: &str| {
            Err(DataError::Setting { name, value, expected: expected.to_owned() })
        };
        if self.window.is_empty() || self.window.contains(&0) {
            return fault("window", format!("{:?}", self.window), "sides of at least 1");
        }
        if !(0.0..1.0).contains(&self.overlap) {
            return fault("overlap", self.overlap.to_string(), "0 to below 1");
        }
        if self.batch == 0 {
            return fault("batch", "0".to_owned(), "at least 1");
        }
        if !(self.sigma > 0.0 && self.sigma.is_finite()) {
            return fault("sigma", self.sigma.to_string(), "a finite number above 0");
        }
        Ok(())
    }

    /// Applies a model to every window and blends the results.
    ///
    /// # Shapes
    /// - `input`: `[pictures, channels, …]`, with as many further axes as the window has sides
    /// - `model`: windows `[up to batch, channels, …window]` to `[the same, any channels, …window]`
    /// - returns: `[pictures, the model's channels, …]`, the sides and the dtype of the input;
    ///   blended in f32
    ///
    /// # Errors
    /// As [`validate`](Self::validate); [`DataError::Setting`] if the window has another number
    /// of sides than the input.
    ///
    /// # Panics
    /// If the model changes the number of windows or their sides, or `input` is empty.
    pub fn apply<const D: usize>(
        &self,
        input: Tensor<D>,
        mut model: impl FnMut(Tensor<D>) -> Tensor<D>,
    ) -> Result<Tensor<D>, DataError> {
        self.validate()?;
        if self.window.len() + 2 != D {
            let (value, expected) = (
                format!("{:?}", self.window),
                format!("{} sides, as the input has", D.saturating_sub(2)),
            );
            return Err(DataError::Setting { name: "window", value, expected });
        }
        let shape: [usize; D] = input.dims();
        let sides: Vec<usize> =
            self.window.iter().zip(&shape[2..]).map(|(&window, &side)| window.min(side)).collect();
        let windows = self.windows(&shape, &sides);
        let device = input.device();
        let dtype = input.dtype();
        let weight_shape: [usize; D] =
            array::from_fn(|axis| if axis < 2 { 1 } else { sides[axis - 2] });
        let weight = Tensor::<D>::from_data(
            TensorData::new(weights(&sides, self.sigma), weight_shape),
            &device,
        )
        .cast(DType::F32);
        let total_shape: [usize; D] =
            array::from_fn(|axis| if axis == 1 { 1 } else { shape[axis] });
        let mut total = Tensor::<D>::zeros(total_shape, &device).cast(DType::F32);
        let mut blended: Option<Tensor<D>> = None;
        for group in windows.chunks(self.batch) {
            let parts = group.iter().map(|ranges| input.clone().slice(ranges.clone())).collect();
            let result = model(Tensor::cat(parts, 0));
            let channels = result.dims()[1];
            let expected: [usize; D] = array::from_fn(|axis| match axis {
                0 => group.len(),
                1 => channels,
                axis => sides[axis - 2],
            });
            assert_eq!(result.dims(), expected, "the model changed the windows or their sides");
            let weighted = result.cast(DType::F32) * weight.clone();
            let mut sum = blended.take().unwrap_or_else(|| {
                let shape: [usize; D] =
                    array::from_fn(|axis| if axis == 1 { channels } else { shape[axis] });
                Tensor::<D>::zeros(shape, &device).cast(DType::F32)
            });
            for (at, ranges) in group.iter().enumerate() {
                let part = weighted.clone().narrow(0, at, 1);
                sum = add(sum, with_channels(ranges, channels), part);
                total = add(total, with_channels(ranges, 1), weight.clone());
            }
            blended = Some(sum);
        }
        Ok((blended.expect("at least one window") / total).cast(dtype))
    }

    /// The ranges of every window of every picture.
    fn windows<const D: usize>(
        &self,
        shape: &[usize; D],
        sides: &[usize],
    ) -> Vec<[Range<usize>; D]> {
        let step =
            |side: usize| ((side as f64 * (1.0 - f64::from(self.overlap))).round() as usize).max(1);
        let first: [Range<usize>; D] = array::from_fn(|axis| 0..shape[axis]);
        let mut windows: Vec<[Range<usize>; D]> = (0..shape[0])
            .map(|picture| {
                let mut ranges = first.clone();
                ranges[0] = picture..picture + 1;
                ranges
            })
            .collect();
        for (axis, &side) in sides.iter().enumerate() {
            let starts = starts(shape[axis + 2], side, step(side));
            windows = windows
                .into_iter()
                .flat_map(|ranges| {
                    starts.iter().map(move |&start| {
                        let mut ranges = ranges.clone();
                        ranges[axis + 2] = start..start + side;
                        ranges
                    })
                })
                .collect();
        }
        windows
    }
}

fn add<const D: usize>(sum: Tensor<D>, ranges: [Range<usize>; D], part: Tensor<D>) -> Tensor<D> {
    let there = sum.clone().slice(ranges.clone());
    sum.slice_assign(ranges, there + part)
}

fn with_channels<const D: usize>(ranges: &[Range<usize>; D], channels: usize) -> [Range<usize>; D] {
    let mut ranges = ranges.clone();
    ranges[1] = 0..channels;
    ranges
}

/// `Π exp(−((x − center) / (σ · side))² / 2)` over the axes, at least 1e-30 so that no place of
/// the picture is without weight.
fn weights(sides: &[usize], sigma: f32) -> Vec<f32> {
    let mut weights = vec![1.0_f64];
    for &side in sides {
        let center = (side as f64 - 1.0) / 2.0;
        let scale = f64::from(sigma) * side as f64;
        let line: Vec<f64> =
            (0..side).map(|at| (-((at as f64 - center) / scale).powi(2) / 2.0).exp()).collect();
        weights = weights.iter().flat_map(|weight| line.iter().map(move |v| weight * v)).collect();
    }
    weights.into_iter().map(|weight| weight.max(1e-30) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_fall_from_the_center_alike_on_both_sides() {
        let weights = weights(&[3, 5], 0.25);
        assert_eq!(weights.len(), 15);
        assert!((weights[7] - 1.0).abs() < 1e-6);
        let expected = (-(1.0_f64 / 0.75).powi(2) / 2.0 - (2.0_f64 / 1.25).powi(2) / 2.0).exp();
        for corner in [0, 4, 10, 14] {
            assert!((f64::from(weights[corner]) - expected).abs() < 1e-6, "{weights:?}");
        }
    }
}
