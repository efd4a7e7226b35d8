//! Outputs and gradients of a row, in a file, to compare them with those of the baseline.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use updraft_precision::Parity;
use updraft_run::{MetricPair, RunError, TestBatch, TestOutputs, Validation};
use updraft_trainer::{BatchGradients, Control, Evaluation, Metric};

use super::order::Samples;
use crate::command::cannot;

/// Enough test samples for a comparison, unless all their numbers are [`MOST_NUMBERS`] or more.
const ENOUGH: usize = 256;

/// Numbers of inputs and outputs after which no batch is added.
const MOST_NUMBERS: usize = 1 << 22;

/// What is compared of a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Compared {
    /// Outputs for test samples, as one batch.
    outputs: Option<TestBatch>,
    metrics: Vec<Metric>,
    /// Gradients of the first training batch, with its loss.
    gradients: Option<BatchGradients>,
    /// Of the initial parameters.
    hash: u64,
}

/// The beginning of a file: everything but the numbers, whose counts it has.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    hash: u64,
    metrics: Vec<Metric>,
    samples: usize,
    shapes: Vec<Vec<usize>>,
    inputs: usize,
    outputs: usize,
    /// JSON has no NaN.
    loss: Option<f64>,
    gradients: Option<usize>,
}

impl Compared {
    pub(super) fn of_gradients(gradients: BatchGradients, parameters: &[f32]) -> Self {
        Self { gradients: Some(gradients), hash: hash(parameters), ..Self::default() }
    }

    /// Runs a model on test samples.
    pub(super) fn of_outputs(
        outputs: &mut dyn TestOutputs,
        wanted: Samples,
        parameters: &[f32],
    ) -> Result<Self, RunError> {
        let (mut batches, mut samples, mut numbers) = (Vec::new(), 0, 0);
        let is_enough = |samples: usize, numbers: usize| match wanted {
            Samples::Exactly(count) => samples >= count,
            Samples::MultipleOf(count) => {
                samples.is_multiple_of(count) && (samples >= ENOUGH || numbers >= MOST_NUMBERS)
            }
        };
        while let Some(batch) = outputs.next_batch()? {
            samples += batch.samples;
            numbers += batch.inputs.len() + batch.outputs.len();
            batches.push(batch);
            if is_enough(samples, numbers) {
                break;
            }
        }
        let metrics = outputs.evaluation().metrics;
        let outputs = Some(joined(batches, samples));
        Ok(Self { outputs, metrics, gradients: None, hash: hash(parameters) })
    }

    /// The number of test samples.
    pub(crate) fn samples(&self) -> usize {
        self.outputs.as_ref().map_or(0, |batch| batch.samples)
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let none = TestBatch { inputs: vec![], outputs: vec![], shapes: vec![], samples: 0 };
        let batch = self.outputs.as_ref().unwrap_or(&none);
        let head = Head {
            hash: self.hash,
            metrics: self.metrics.clone(),
            samples: batch.samples,
            shapes: batch.shapes.clone(),
            inputs: batch.inputs.len(),
            outputs: batch.outputs.len(),
            loss: self.gradients.as_ref().map(|found| found.loss).filter(|loss| loss.is_finite()),
            gradients: self.gradients.as_ref().map(|found| found.gradients.len()),
        };
        let head = serde_json::to_vec(&head)?;
        let gradients = self.gradients.iter().flat_map(|found| &found.gradients);
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(path)?);
            file.write_all(&(head.len() as u64).to_le_bytes())?;
            file.write_all(&head)?;
            batch.inputs.iter().try_for_each(|it| file.write_all(&it.to_le_bytes()))?;
            batch.outputs.iter().try_for_each(|it| file.write_all(&it.to_le_bytes()))?;
            gradients.clone().try_for_each(|it| file.write_all(&it.to_le_bytes()))?;
            file.flush()
        };
        write().map_err(|cause| cannot("write", path, cause))
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let failed = |cause| cannot("read", path, cause);
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(failed)?;
        let mut head = vec![0; usize::try_from(u64::from_le_bytes(length))?];
        file.read_exact(&mut head).map_err(failed)?;
        let head: Head = serde_json::from_slice(&head).context("outputs to compare")?;
        let mut floats = |count: usize| -> Result<Vec<f32>> {
            let mut bytes = vec![0; 4 * count];
            file.read_exact(&mut bytes).map_err(failed)?;
            let chunks = bytes.chunks_exact(4);
            Ok(chunks.map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect())
        };
        // Numbers in f64 have twice the bytes.
        let pairs = floats(2 * head.inputs)?;
        let inputs = pairs.chunks_exact(2).map(|pair| {
            let [low, high] = [pair[0], pair[1]].map(|half| u64::from(half.to_bits()));
            f64::from_bits(low | high << 32)
        });
        let inputs = inputs.collect();
        let outputs = floats(head.outputs)?;
        let gradients = head.gradients.map(&mut floats).transpose()?;
        let (samples, shapes) = (head.samples, head.shapes);
        Ok(Self {
            outputs: (samples > 0).then_some(TestBatch { inputs, outputs, shapes, samples }),
            metrics: head.metrics,
            gradients: gradients.map(|gradients| {
                let loss = head.loss.unwrap_or(f64::NAN);
                BatchGradients { loss, gradients }
            }),
            hash: head.hash,
        })
    }

    /// Compares a row with the baseline, which has the same batch if `same_batch`.
    ///
    /// # Errors
    /// An error with the reason why they cannot be compared.
    pub(crate) fn against(
        &self,
        baseline: &Self,
        same_batch: bool,
        device: &Device,
    ) -> Result<Difference> {
        if self.hash != baseline.hash {
            bail!("its initial parameters are others than the baseline's")
        }
        match (&self.gradients, &baseline.gradients) {
            (Some(found), Some(expected)) => {
                if !same_batch {
                    bail!("its batches have another size")
                }
                let parity = Parity::between(&expected.gradients, &found.gradients)?;
                let loss = Some((expected.loss, found.loss));
                Ok(Difference { samples: 0, parity, ssim: None, metrics: Vec::new(), loss })
            }
            _ => self.outputs_against(baseline, device),
        }
    }

    fn outputs_against(&self, baseline: &Self, device: &Device) -> Result<Difference> {
        let stored = |compared: &Self| Stored {
            batch: compared.outputs.clone(),
            metrics: compared.metrics.clone(),
            samples: compared.samples(),
        };
        let (mut expected, mut found) = (stored(baseline), stored(self));
        let poll = &mut |_| Control::Continue;
        let found = Validation::between(&mut expected, &mut found, device, poll)?;
        let found = found.context("a comparison that nothing stops")?;
        let Validation { samples, parity, ssim, metrics, .. } = found;
        Ok(Difference { samples, parity, ssim, metrics, loss: None })
    }
}

/// How far a row is from the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// Test samples; 0 for gradients.
    pub(crate) samples: usize,
    pub(crate) parity: Parity,
    pub(crate) ssim: Option<f64>,
    pub(crate) metrics: Vec<MetricPair>,
    /// The losses of the first training batch.
    pub(crate) loss: Option<(f64, f64)>,
}

impl Difference {
    /// The metric that differs most; `None` without metrics. NaN, for a metric that only one of
    /// them has, counts most.
    pub(crate) fn worst_metric(&self) -> Option<&MetricPair> {
        let key = |pair: &&MetricPair| {
            let apart = pair.difference().abs();
            if apart.is_nan() { f64::INFINITY } else { apart }
        };
        self.metrics.iter().max_by(|a, b| key(a).total_cmp(&key(b)))
    }

    pub(crate) fn json(&self) -> Value {
        let Self { samples, parity, ssim, metrics, loss } = self;
        // JSON has no infinity: equal results have no noise.
        let finite = |value: f64| value.is_finite().then_some(value);
        let metrics = metrics.iter().map(|pair| {
            json!({ "metric": pair.spec.name, "baseline": pair.reference, "row": pair.result,
                    "difference": finite(pair.difference()) })
        });
        json!({
            "compared": if loss.is_some() { "gradients" } else { "outputs" },
            "samples": samples,
            "relative_error": finite(parity.relative_error()),
            "largest_error": finite(parity.max_abs),
            "largest_error_of_peak": finite(parity.max_rel),
            "cosine": finite(parity.cosine),
            "psnr_db": finite(parity.psnr_db),
            "sqnr_db": finite(parity.sqnr_db),
            "ssim": ssim,
            "metrics": metrics.collect::<Vec<_>>(),
            "loss": loss.map(|(baseline, row)| json!({ "baseline": baseline, "row": row })),
        })
    }
}

/// Outputs that were computed before.
struct Stored {
    batch: Option<TestBatch>,
    metrics: Vec<Metric>,
    samples: usize,
}

impl TestOutputs for Stored {
    fn next_batch(&mut self) -> Result<Option<TestBatch>, RunError> {
        Ok(self.batch.take())
    }

    fn evaluation(&self) -> Evaluation {
        Evaluation { metrics: self.metrics.clone(), samples: self.samples }
    }
}

/// One batch of all samples: rows with other batches are compared, too. Batches whose tensors have
/// no axis of samples follow one another.
fn joined(batches: Vec<TestBatch>, samples: usize) -> TestBatch {
    let mut all = TestBatch { inputs: vec![], outputs: vec![], shapes: vec![], samples };
    let mut tensors: Vec<Vec<f32>> = Vec::new();
    for batch in batches {
        all.inputs.extend(batch.inputs);
        let mut rest = &batch.outputs[..];
        for (at, shape) in batch.shapes.iter().enumerate() {
            let (own, others) = rest.split_at(shape.iter().product());
            rest = others;
            if tensors.len() == at {
                tensors.push(Vec::new());
                all.shapes.push(vec![0].into_iter().chain(shape.iter().skip(1).copied()).collect());
            }
            tensors[at].extend(own);
            all.shapes[at][0] += shape.first().copied().unwrap_or(1);
        }
    }
    all.outputs = tensors.concat();
    all
}

/// FNV-1a of the bits of numbers: whether two lists are the same.
fn hash(numbers: &[f32]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use updraft_trainer::{Direction, MetricSpec, Unit};

    use super::*;

    /// Batches that a model computed.
    struct Model(Vec<TestBatch>);

    impl TestOutputs for Model {
        fn next_batch(&mut self) -> Result<Option<TestBatch>, RunError> {
            Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
        }

        fn evaluation(&self) -> Evaluation {
            let spec = MetricSpec::new("loss", Unit::None, Direction::LowerIsBetter);
            Evaluation { metrics: vec![Metric { spec, value: Some(0.5) }], samples: 4 }
        }
    }

    /// Four samples of an input of one and outputs of two and one numbers, in batches of `size`.
    fn model(size: usize) -> Model {
        let batch = |first: usize| {
            let of = |offset: f32| (first..first + size).map(move |at| at as f32 + offset);
            let twice = of(0.0).flat_map(|it| [it, -it]);
            TestBatch {
                inputs: of(0.5).map(f64::from).collect(),
                outputs: twice.chain(of(0.25)).collect(),
                shapes: vec![vec![size, 2], vec![size]],
                samples: size,
            }
        };
        Model((0..4).step_by(size).map(batch).collect())
    }

    fn compared(size: usize, parameters: &[f32]) -> Compared {
        let wanted = Samples::Exactly(4);
        Compared::of_outputs(&mut model(size), wanted, parameters).expect("outputs")
    }

    #[test]
    fn outputs_are_the_same_for_every_batch_and_after_a_file() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("a");
        compared(2, &[1.0]).write(&path).expect("written");
        let read = Compared::read(&path).expect("read");
        assert_eq!(read, compared(1, &[1.0]));
        let found = read.against(&compared(4, &[1.0]), false, &Device::flex()).expect("comparable");
        assert_eq!((found.samples, found.parity.max_abs), (4, 0.0));
        assert_eq!(found.worst_metric().map(MetricPair::difference), Some(0.0));
        let gradients = BatchGradients { loss: 0.5, gradients: vec![1.0, -2.0] };
        let gradients = Compared::of_gradients(gradients, &[1.0]);
        gradients.write(&path).expect("written");
        assert_eq!(Compared::read(&path).expect("read"), gradients);
    }

    #[test]
    fn a_difference_shows_and_what_cannot_be_compared_is_refused() {
        let mut other = compared(2, &[1.0]);
        let outputs = &mut other.outputs.as_mut().expect("outputs").outputs;
        outputs[3] += 0.5;
        let found = other.against(&compared(2, &[1.0]), true, &Device::flex()).expect("comparable");
        assert_eq!(found.parity.max_abs, 0.5);
        let refused = compared(2, &[1.0]).against(&compared(2, &[2.0]), true, &Device::flex());
        let refused = refused.expect_err("other parameters").to_string();
        assert!(refused.contains("initial parameters"), "{refused}");
        let of = |loss, gradient| {
            Compared::of_gradients(BatchGradients { loss, gradients: vec![gradient] }, &[])
        };
        let found = of(0.5, 1.0).against(&of(0.5, 2.0), true, &Device::flex()).expect("comparable");
        assert_eq!((found.parity.max_abs, found.loss), (1.0, Some((0.5, 0.5))));
        let refused =
            of(0.5, 1.0).against(&of(0.5, 1.0), false, &Device::flex()).expect_err("another batch");
        assert!(refused.to_string().contains("another size"), "{refused}");
    }

    #[test]
    fn samples_are_a_multiple_of_the_largest_batch_or_all() {
        let of = |wanted| Compared::of_outputs(&mut model(1), wanted, &[]).map(|it| it.samples());
        assert_eq!(of(Samples::Exactly(3)).expect("outputs"), 3);
        assert_eq!(of(Samples::MultipleOf(2)).expect("outputs"), 4);
    }
}
