//! An evaluation divided among ranks.

use burn::tensor::Device;
use updraft_distributed::{Collective, CollectiveError, Share, gather};
use updraft_precision::Policy;

use crate::batch_numbers::BatchNumbers;
use crate::error::TrainError;
use crate::evaluate::{Evaluated, evaluate};
use crate::evaluation_pass::EvaluationPass;
use crate::events::Control;
use crate::stream::BatchStream;
use crate::task::Task;

/// As [`evaluate`](crate::evaluate()), with the batches divided among ranks: the result of one rank,
/// bit for bit, on every rank.
///
/// Each rank evaluates neighboring batches, whole as one rank does, so `stream` must be the same on
/// all, with whole batches. The numbers of every batch are gathered at the end and added in the
/// order of batches. A task whose computation of a batch depends on those before it, or devices of
/// several kinds, give another rounding.
///
/// `poll` receives the samples of this rank. A rank that stops or fails returns at once, and the
/// others do not get a result: end all of them.
///
/// # Errors
/// As [`evaluate`](crate::evaluate()), and [`TrainError::Collective`] if a rank is lost.
///
/// # Panics
/// As the task.
pub fn evaluate_on_ranks<M, T: Task<M>>(
    task: &T,
    model: &M,
    stream: &dyn BatchStream<T::Batch>,
    (device, policy): (&Device, Policy),
    collective: &mut dyn Collective,
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Evaluated<T::Score>>, TrainError> {
    if collective.size() == 1 {
        return evaluate(task, model, stream, device, policy, poll);
    }
    let failed = |cause| TrainError::Evaluation { cause };
    let part = Share::of(collective).range(stream.batches());
    let batches = stream.epoch_part(0, part).map_err(failed)?;
    let mut pass = EvaluationPass::over(batches, task, model, device, policy);
    let (mut sent, mut done) = (Vec::new(), 0);
    while let Some((.., (samples, numbers))) = pass.measure_next(|_| ()).map_err(failed)? {
        write(samples, &numbers, &mut sent);
        done += samples;
        if poll(done) != Control::Continue {
            return Ok(None);
        }
    }
    for (rank, bytes) in gather(collective, &sent)?.iter().enumerate() {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let read = read(&mut rest).ok_or(CollectiveError::Length {
                rank,
                expected: bytes.len(),
                found: bytes.len() - rest.len(),
            })?;
            pass.add(read.0, &read.1);
        }
    }
    let (sums, score) = pass.into_sums();
    Ok(Some(Evaluated::of(task, &sums, score)))
}

/// Appends the numbers of a batch, with their counts.
fn write(samples: usize, batch: &BatchNumbers, bytes: &mut Vec<u8>) {
    for count in [samples, batch.parts.len(), batch.numbers.len()] {
        bytes.extend((count as u64).to_le_bytes());
    }
    let numbers = std::iter::once(&batch.loss).chain(&batch.parts).chain(&batch.numbers);
    bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
}

/// The numbers of the next batch; `None` if they are incomplete.
fn read(bytes: &mut &[u8]) -> Option<(usize, BatchNumbers)> {
    let mut eight = || {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(*first)
    };
    let mut count = || usize::try_from(u64::from_le_bytes(eight()?)).ok();
    let (samples, parts, numbers) = (count()?, count()?, count()?);
    let loss = f64::from_le_bytes(eight()?);
    let mut floats = |count| (0..count).map(|_| eight().map(f64::from_le_bytes)).collect();
    let (parts, numbers): (Option<Vec<f64>>, Option<Vec<f64>>) = (floats(parts), floats(numbers));
    let batch = BatchNumbers { loss, parts: parts?, numbers: numbers?, squares: Vec::new() };
    Some((samples, batch))
}
