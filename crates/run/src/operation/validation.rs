//! The comparison of two trained models, or of two forms of one, on the same inputs.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_precision::{Parity, ParitySums};
use updraft_trainer::{Control, Evaluation, MetricSpec, Unit, ssim_loss};

use super::outputs::{TestBatch, TestOutputs};
use crate::error::RunError;

/// How far the outputs and the metrics of a model are from those of a reference, on the same test
/// data.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Validation {
    /// The number of test samples.
    pub samples: usize,
    /// The comparison of all outputs.
    pub parity: Parity,
    /// The structural similarity of outputs that are images or volumes, the mean over samples; the
    /// range of values is that of the reference in a batch.
    pub ssim: Option<f64>,
    /// The metrics of both.
    pub metrics: Vec<MetricPair>,
}

/// A metric of both models.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPair {
    /// Name, unit and direction.
    pub spec: MetricSpec,
    /// The value of the reference; `None` if it is not defined.
    pub reference: Option<f64>,
    /// The value of the other model.
    pub result: Option<f64>,
}

impl MetricPair {
    /// The difference of the values: of fractions as it is, of other metrics divided by the
    /// reference's magnitude. NaN if only one of them is defined.
    #[must_use]
    pub fn difference(&self) -> f64 {
        match (self.reference, self.result) {
            (None, None) => 0.0,
            (Some(reference), Some(result)) if reference == result => 0.0,
            (Some(reference), Some(result)) if self.spec.unit == Unit::Share => result - reference,
            (Some(reference), Some(result)) => (result - reference) / reference.abs(),
            _ => f64::NAN,
        }
    }

    /// Whether the difference is at most a tolerance, for better or for worse.
    #[must_use]
    pub fn is_within(&self, tolerance: f64) -> bool {
        self.difference().abs() <= tolerance
    }
}

impl Validation {
    /// Compares the outputs of a model with those of a reference; `None` if `poll`, called with the
    /// number of samples so far, stops it. Similarities of images are computed on `device`.
    ///
    /// # Errors
    /// [`RunError::NotComparable`] for other inputs, numbers of samples or shapes of outputs, and
    /// the errors of both models.
    pub fn between(
        reference: &mut dyn TestOutputs,
        result: &mut dyn TestOutputs,
        device: &Device,
        poll: &mut dyn FnMut(usize) -> Control,
    ) -> Result<Option<Self>, RunError> {
        let (mut sums, mut similarity, mut samples) = (ParitySums::default(), Some(0.0), 0);
        loop {
            let (expected, found) = match (reference.next_batch()?, result.next_batch()?) {
                (Some(expected), Some(found)) => (expected, found),
                (None, None) => break,
                _ => return Err(not_comparable(samples, "one of them has fewer test samples")),
            };
            refuse_other(&expected, &found, samples)?;
            sums.add(&expected.outputs, &found.outputs)
                .map_err(|error| not_comparable(samples, &error.to_string()))?;
            similarity = similarity
                .zip(ssim(&expected, &found, device))
                .map(|(sum, ssim)| sum + ssim * expected.samples as f64);
            samples += expected.samples;
            if poll(samples) != Control::Continue {
                return Ok(None);
            }
        }
        let metrics = pairs(&reference.evaluation(), &result.evaluation());
        let ssim = similarity.filter(|_| samples > 0).map(|sum| sum / samples as f64);
        Ok(Some(Self { samples, parity: sums.parity(), ssim, metrics }))
    }
}

/// Returns an error for batches that cannot be compared.
fn refuse_other(expected: &TestBatch, found: &TestBatch, at: usize) -> Result<(), RunError> {
    if expected.samples != found.samples {
        return Err(not_comparable(at, "one of them has fewer test samples"));
    }
    if expected.shapes != found.shapes {
        let difference = format!(
            "the outputs of one have the shapes {:?}, those of the other {:?}",
            expected.shapes, found.shapes
        );
        return Err(not_comparable(at, &difference));
    }
    if expected.inputs != found.inputs {
        return Err(not_comparable(at, "the inputs of the models differ"));
    }
    Ok(())
}

fn not_comparable(sample: usize, difference: &str) -> RunError {
    RunError::NotComparable { sample, difference: difference.to_owned() }
}

/// The structural similarity of outputs that are one tensor of images or volumes with more than one
/// value.
fn ssim(expected: &TestBatch, found: &TestBatch, device: &Device) -> Option<f64> {
    let [shape] = &expected.shapes[..] else { return None };
    let low = expected.outputs.iter().copied().fold(f32::INFINITY, f32::min);
    let high = expected.outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = f64::from(high) - f64::from(low);
    if !range.is_finite() || range <= 0.0 {
        return None;
    }
    let lost = match shape.len() {
        4 => ssim_loss(image::<4>(expected, device), image(found, device), range),
        5 => ssim_loss(image::<5>(expected, device), image(found, device), range),
        _ => return None,
    };
    lost.into_data().iter::<f64>().next().map(|lost| 1.0 - lost)
}

fn image<const D: usize>(batch: &TestBatch, device: &Device) -> Tensor<D> {
    let data = TensorData::new(batch.outputs.clone(), batch.shapes[0].clone());
    Tensor::from_data(data, device)
}

/// The metrics that both have, in the order of the reference.
fn pairs(reference: &Evaluation, result: &Evaluation) -> Vec<MetricPair> {
    let pair = |metric: &updraft_trainer::Metric| {
        let found = result.metrics.iter().find(|other| other.spec.name == metric.spec.name)?;
        let (spec, reference) = (metric.spec.clone(), metric.value);
        Some(MetricPair { spec, reference, result: found.value })
    };
    reference.metrics.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use updraft_trainer::Direction;

    use super::*;

    /// Batches that were computed before.
    struct Stored(Vec<TestBatch>, Option<f64>);

    impl TestOutputs for Stored {
        fn next_batch(&mut self) -> Result<Option<TestBatch>, RunError> {
            Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
        }

        fn evaluation(&self) -> Evaluation {
            let spec = |name, unit| MetricSpec::new(name, unit, Direction::HigherIsBetter);
            let metric = |spec, value| updraft_trainer::Metric { spec, value };
            let loss = metric(spec("loss", Unit::None), Some(0.5));
            let share = metric(spec("accuracy", Unit::Share), self.1);
            Evaluation { metrics: vec![loss, share], samples: 4 }
        }
    }

    fn batch(inputs: &[f64], outputs: &[f32], shape: &[usize]) -> TestBatch {
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        TestBatch { inputs, outputs, shapes: vec![shape.to_vec()], samples: shape[0] }
    }

    fn compare(reference: Stored, result: Stored) -> Result<Option<Validation>, RunError> {
        let (mut reference, mut result) = (reference, result);
        Validation::between(&mut reference, &mut result, &Device::flex(), &mut |_| {
            Control::Continue
        })
    }

    #[test]
    fn outputs_and_metrics_are_compared_over_all_batches() {
        let of = |last: f32, accuracy| {
            let batches =
                vec![batch(&[1.0], &[3.0, 4.0], &[1, 2]), batch(&[2.0], &[0.0, last], &[1, 2])];
            Stored(batches, accuracy)
        };
        let found = compare(of(1.0, Some(0.5)), of(2.0, Some(0.25))).expect("comparable");
        let found = found.expect("not stopped");
        assert_eq!((found.samples, found.parity.max_abs, found.ssim), (2, 1.0, None));
        assert_eq!(found.parity.max_rel, 0.25);
        let [loss, accuracy] = &found.metrics[..] else { panic!("two metrics") };
        assert_eq!((loss.difference(), accuracy.difference()), (0.0, -0.25));
        assert!(accuracy.is_within(0.25) && !accuracy.is_within(0.2));
        // A metric that only one of them has is never within a tolerance.
        let found = compare(of(1.0, Some(0.5)), of(1.0, None)).expect("comparable");
        assert!(!found.expect("not stopped").metrics[1].is_within(f64::INFINITY));
    }

    #[test]
    fn images_have_a_structural_similarity_and_equal_ones_have_one() {
        let image: Vec<f32> = (0..144).map(|at| (at * 37 % 101) as f32).collect();
        let noisy: Vec<f32> = image.iter().map(|value| value + value % 7.0).collect();
        let of = |image: &[f32]| Stored(vec![batch(&[1.0], image, &[1, 1, 12, 12])], None);
        let ssim = |result: &[f32]| {
            let found = compare(of(&image), of(result)).expect("comparable").expect("not stopped");
            found.ssim.expect("images")
        };
        assert!((ssim(&image) - 1.0).abs() < 1e-6);
        assert!((0.5..0.9999).contains(&ssim(&noisy)), "{}", ssim(&noisy));
    }

    #[test]
    fn other_inputs_shapes_and_numbers_of_samples_are_refused() {
        let of = |batches: &[TestBatch]| Stored(batches.to_vec(), None);
        let first = batch(&[1.0], &[3.0, 4.0], &[1, 2]);
        for (other, words) in [
            (vec![batch(&[2.0], &[3.0, 4.0], &[1, 2])], "from test sample 0 on"),
            (vec![batch(&[1.0], &[3.0, 4.0, 5.0, 6.0], &[2, 2])], "fewer test samples"),
            (vec![batch(&[1.0], &[3.0], &[1, 1])], "[[1, 2]], those of the other [[1, 1]]"),
            (vec![first.clone(), first.clone()], "fewer test samples"),
        ] {
            let error = compare(of(std::slice::from_ref(&first)), of(&other)).expect_err("refused");
            assert!(error.to_string().contains(words) && error.is_input(), "{error}");
        }
    }
}
