//! Similarity of predicted images to the true ones.

use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::score::Score;
use super::sum::Sum;
use crate::loss::{at_least_f32, structural_similarity};

/// f32 holds every integer below 2²⁴, so a count is read as two numbers, of its low 16 bits and of
/// the others.
const LOW: usize = 1 << 16;

/// Channels, positions (two numbers), the range, and whether the similarity was measured, before
/// the other numbers of a batch.
const HEAD: usize = 5;

/// The numbers of one channel of one sample.
const SUMS: usize = 9;

/// Pearson correlation, explained variance, peak signal-to-noise ratio, structural similarity and
/// mean absolute error of predicted images or volumes, over a whole set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImageScores {
    channels: Vec<Channel>,
    /// `Σ((p − t)/range)²` over all values.
    relative_squares: Sum,
    /// The sum over samples.
    similarity: Sum,
    /// Samples whose similarity was measured.
    samples: u64,
}

/// One channel's sums over all samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Channel {
    moments: Moments,
    /// `Σ(p − t)²`.
    squares: Sum,
    /// `Σ|p − t|`.
    absolute: Sum,
}

impl ImageScores {
    /// The numbers that [`Score::add`] takes for a batch: the sums of each channel of each sample,
    /// about the channel's own means, and the structural similarity of each sample.
    ///
    /// Sums are in at least f32. `data_range` is the difference between the largest and the
    /// smallest possible value: 255 for bytes, 1 for images in `[0, 1]`.
    ///
    /// # Shapes
    /// - `predictions` and `targets`: `[batch, channels, height, width]` or
    ///   `[batch, channels, depth, height, width]`
    /// - returns: `[5 + batch + 9 · batch · channels]`
    ///
    /// # Panics
    /// If the shapes differ or have fewer than three axes, an axis is empty, or `data_range` is not
    /// a finite number above 0.
    #[must_use]
    pub fn measure<const D: usize>(
        predictions: &Tensor<D>,
        targets: &Tensor<D>,
        data_range: f64,
    ) -> Tensor<1> {
        let (p, t) = (predictions.clone(), targets.clone());
        let similarity = structural_similarity(p, t, data_range).mean_dim(1).flatten(0, 1);
        Self::numbers(predictions, targets, data_range, Some(similarity))
    }

    /// The same without the structural similarity, which is more expensive than all others.
    ///
    /// # Shapes
    /// - returns: `[5 + 9 · batch · channels]`
    ///
    /// # Panics
    /// If the shapes differ, or an axis is empty.
    #[must_use]
    pub fn measure_errors<const D: usize>(
        predictions: &Tensor<D>,
        targets: &Tensor<D>,
        data_range: f64,
    ) -> Tensor<1> {
        assert_eq!(predictions.dims(), targets.dims(), "predictions and targets have one shape");
        Self::numbers(predictions, targets, data_range, None)
    }

    fn numbers<const D: usize>(
        predictions: &Tensor<D>,
        targets: &Tensor<D>,
        data_range: f64,
        similarity: Option<Tensor<1>>,
    ) -> Tensor<1> {
        let (predictions, targets) = (predictions.clone(), targets.clone());
        let dims = predictions.dims();
        let (rows, positions) = (dims[0] * dims[1], dims[2..].iter().product::<usize>());
        let predictions = at_least_f32(predictions);
        let (device, dtype) = (predictions.device(), predictions.dtype());
        let targets = targets.cast(dtype);

        let error = predictions.clone() - targets.clone();
        let mean = |image: &Tensor<D>| sums(image.clone()).div_scalar(positions as f64);
        let (mean_p, mean_t) = (mean(&predictions), mean(&targets));
        let (p, t) = (predictions - mean_p.clone(), targets - mean_t.clone());
        let columns = [
            mean_p,
            mean_t,
            // Not exactly 0, because the means are rounded.
            sums(p.clone()),
            sums(t.clone()),
            sums(p.clone().powi_scalar(2)),
            sums(t.clone().powi_scalar(2)),
            sums(p * t),
            sums(error.clone().powi_scalar(2)),
            sums(error.abs()),
        ];
        let columns = columns.map(|column| column.reshape([rows, 1]));
        let columns: Tensor<2> = Tensor::cat(columns.into(), 1);
        let head = [dims[1], positions / LOW, positions % LOW].map(|count| count as f64);
        let has_similarity = f64::from(u8::from(similarity.is_some()));
        let head = [&head[..], &[data_range, has_similarity]].concat();
        let head = Tensor::from_data(TensorData::new(head, [HEAD]), (&device, dtype));
        let similarity = similarity.map(|similarity| similarity.cast(dtype));
        let parts = std::iter::once(head).chain(similarity).chain([columns.flatten(0, 1)]);
        Tensor::cat(parts.collect(), 0)
    }

    /// Pearson's correlation of predictions and targets, the mean over channels, each over all its
    /// values; `None` before the first sample, and if the predictions or the targets of a channel
    /// are all equal.
    #[must_use]
    pub fn pearson(&self) -> Option<f64> {
        self.mean(|channel| channel.moments.correlation())
    }

    /// Pearson's correlation of a channel, over all its values; `None` if its predictions or its
    /// targets are all equal, or there is no such channel.
    #[must_use]
    pub fn pearson_of(&self, channel: usize) -> Option<f64> {
        self.channels.get(channel)?.moments.correlation()
    }

    /// The share of the targets' variance that the predictions explain, at most 1, the mean over
    /// channels; `None` before the first sample, and if the targets of a channel are all equal.
    #[must_use]
    pub fn r_squared(&self) -> Option<f64> {
        self.mean(|channel| Some(1.0 - channel.squares.value() / channel.moments.spread()?))
    }

    /// The peak signal-to-noise ratio in dB, `10·log₁₀(range²/MSE)` with the mean squared error
    /// over all values; `None` before the first sample, and if all values are exact, for which it
    /// would be infinite.
    #[must_use]
    pub fn psnr(&self) -> Option<f64> {
        let mean = self.relative_squares.value() / self.values()?;
        (mean != 0.0).then(|| -10.0 * mean.log10())
    }

    /// The structural similarity, `1 −` [`ssim_loss`](crate::ssim_loss), the mean over samples;
    /// `None` before the first measured one.
    #[must_use]
    pub fn ssim(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.similarity.value() / self.samples as f64)
    }

    /// The mean of `|prediction − target|` over all values, in the targets' unit; `None` before the
    /// first sample.
    #[must_use]
    pub fn mean_absolute_error(&self) -> Option<f64> {
        let values = self.values()?;
        Some(self.channels.iter().map(|channel| channel.absolute.value()).sum::<f64>() / values)
    }

    /// How many values there are in all channels; `None` without any.
    fn values(&self) -> Option<f64> {
        let count: u64 = self.channels.iter().map(|channel| channel.moments.count).sum();
        (count > 0).then_some(count as f64)
    }

    /// The mean over channels; `None` if one is not defined.
    fn mean(&self, metric: impl Fn(&Channel) -> Option<f64>) -> Option<f64> {
        let each: Vec<f64> = self.channels.iter().map(metric).collect::<Option<_>>()?;
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
    }

    fn grow(&mut self, channels: usize) {
        self.channels.resize_with(channels.max(self.channels.len()), Channel::default);
    }
}

impl Score for ImageScores {
    fn add(&mut self, numbers: &[f64], _: usize) {
        let Some((&[channels, high, low, range, has_similarity], numbers)) =
            numbers.split_first_chunk::<HEAD>()
        else {
            return;
        };
        let (channels, count) = (channels as usize, high as u64 * LOW as u64 + low as u64);
        let samples = match has_similarity == 1.0 {
            true => numbers.len() / (1 + SUMS * channels),
            false => 0,
        };
        let (similarities, rows) = numbers.split_at(samples);
        self.grow(channels);
        self.samples += samples as u64;
        for similarity in similarities {
            self.similarity.add(*similarity);
        }
        let (rows, _) = rows.as_chunks::<SUMS>();
        for (at, &[mean_p, mean_t, p, t, pp, tt, pt, squares, absolute]) in rows.iter().enumerate()
        {
            let moments = Moments::about([mean_p, mean_t], count, [p, t, pp, tt, pt]);
            let (squares, absolute) = (squares.into(), absolute.into());
            self.channels[at % channels].merge(&Channel { moments, squares, absolute });
            self.relative_squares.add(squares.value() / (range * range));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.grow(other.channels.len());
        for (own, other) in self.channels.iter_mut().zip(&other.channels) {
            own.merge(other);
        }
        self.relative_squares.add(other.relative_squares.value());
        self.similarity.add(other.similarity.value());
        self.samples += other.samples;
    }
}

impl Channel {
    fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.squares.add(other.squares.value());
        self.absolute.add(other.absolute.value());
    }
}

/// The sum over each channel of each sample, along one axis after the other: sums of sums round
/// less than one long sum.
fn sums<const D: usize>(image: Tensor<D>) -> Tensor<D> {
    (2..D).rev().fold(image, |image, axis| image.sum_dim(axis))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, FloatDType};
    use updraft_testing::{devices, scattered};

    use super::*;

    fn image<const D: usize>(seed: u32, dims: [usize; D], device: &Device) -> Tensor<D> {
        let values = scattered(seed, dims.iter().product());
        Tensor::from_data(TensorData::new(values, dims), device)
    }

    fn score<const D: usize>(predictions: &Tensor<D>, targets: &Tensor<D>) -> ImageScores {
        let numbers = ImageScores::measure(predictions, targets, 2.0);
        let [batch, channels] = [0, 1].map(|axis| predictions.dims()[axis]);
        assert_eq!(numbers.dims(), [HEAD + batch + SUMS * batch * channels]);
        let numbers: Vec<f64> = numbers.into_data().iter().collect();
        let mut score = ImageScores::default();
        score.add(&numbers, batch);
        score
    }

    fn assert_near(found: Option<f64>, expected: f64, bound: f64) {
        let found = found.expect("defined");
        assert!((found - expected).abs() < bound, "{found}, expected {expected}");
    }

    #[test]
    fn values_known_by_hand() {
        for device in devices() {
            // One channel, p = 1 2 6 and t = 5 3 4, Σ of products about the means −1, of 14 and 2;
            // and one with p = t = 0 1 2.
            let predictions =
                Tensor::<4>::from_floats([[[[1.0, 2.0, 6.0]], [[0.0, 1.0, 2.0]]]], &device);
            let targets =
                Tensor::<4>::from_floats([[[[5.0, 3.0, 4.0]], [[0.0, 1.0, 2.0]]]], &device);
            let found = score(&predictions, &targets);
            let first = -1.0 / 28.0_f64.sqrt();
            assert_near(found.pearson_of(0), first, 1e-6);
            assert_near(found.pearson(), f64::midpoint(first, 1.0), 1e-6);
            assert_eq!(found.pearson_of(2), None);
            // Squared errors 16, 1 and 4.
            assert_near(found.r_squared(), f64::midpoint(1.0 - 21.0 / 2.0, 1.0), 1e-5);
            assert_near(found.psnr(), 10.0 * (4.0 / (21.0 / 6.0_f64)).log10(), 1e-5);
            assert_near(found.mean_absolute_error(), 7.0 / 6.0, 1e-6);

            let found = score(&targets, &targets);
            assert_eq!((found.psnr(), found.r_squared()), (None, Some(1.0)));
            assert_near(found.ssim(), 1.0, 1e-6);
            let flat = score(&targets.ones_like(), &targets);
            assert_eq!((flat.pearson(), flat.pearson_of(0)), (None, None));
            assert!(flat.r_squared().is_some());
        }
        let empty = ImageScores::default();
        assert_eq!((empty.pearson(), empty.psnr(), empty.ssim()), (None, None, None));
        assert_eq!((empty.r_squared(), empty.mean_absolute_error()), (None, None));
    }

    #[test]
    fn values_far_from_zero_keep_their_digits() {
        for device in devices() {
            let dims = [2, 1, 40, 50];
            let near = image::<4>(1, dims, &device).cast(FloatDType::F64);
            let predictions = near.clone() + image(2, dims, &device).cast(FloatDType::F64);
            // f32 keeps three digits of them.
            let far = |image: &Tensor<4>| image.clone().add_scalar(4096.0).cast(FloatDType::F32);
            let (found, wide) =
                (score(&far(&predictions), &far(&near)), score(&predictions, &near));
            assert_near(found.pearson(), wide.pearson().expect("they differ"), 1e-5);
            assert_near(found.r_squared(), wide.r_squared().expect("they differ"), 1e-4);
        }
    }

    #[test]
    fn merged_parts_are_the_whole_and_come_back_to_the_bit() {
        for device in devices() {
            let dims = [3, 2, 5, 12, 13];
            let (predictions, targets) = (image::<5>(3, dims, &device), image(4, dims, &device));
            let part = |first, count| {
                score(
                    &predictions.clone().narrow(0, first, count),
                    &targets.clone().narrow(0, first, count),
                )
            };
            let (mut merged, whole) = (part(0, 1), part(0, 3));
            merged.merge(&part(1, 2));
            let values = |score: &ImageScores| {
                [
                    score.pearson(),
                    score.r_squared(),
                    score.psnr(),
                    score.ssim(),
                    score.mean_absolute_error(),
                ]
            };
            for (found, expected) in values(&merged).into_iter().zip(values(&whole)) {
                assert_near(found, expected.expect("defined"), 1e-6);
            }
            let text = serde_json::to_string(&whole).expect("JSON");
            assert_eq!(serde_json::from_str::<ImageScores>(&text).expect("a score"), whole);
        }
    }

    #[test]
    #[should_panic(expected = "predictions and targets have one shape")]
    fn shapes_that_would_broadcast_are_refused() {
        let device = Device::flex();
        let targets = Tensor::<4>::ones([1, 1, 1, 12], &device);
        let _ = ImageScores::measure(&Tensor::ones([1, 1, 12, 1], &device), &targets, 1.0);
    }
}
