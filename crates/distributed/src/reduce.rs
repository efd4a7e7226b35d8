//! Sums over all ranks, added in the order of ranks.

use crate::{Collective, CollectiveError, Wire};

/// Numbers that are exchanged at a time: 8 MiB in f32.
pub(crate) const BUCKET: usize = 2 << 20;

/// Sums of f32 over all ranks, with the buffers that it needs.
///
/// Each rank adds one part of the numbers, in f32 and in the order of ranks, and sends its sums to
/// all others. Every rank ends with the same bits, every run and every engine too. Each number
/// travels twice, as in a ring.
#[derive(Debug, Default)]
pub struct AllReduce {
    wire: Wire,
    send: Vec<u8>,
    receive: Vec<u8>,
    sums: Vec<f32>,
}

impl AllReduce {
    /// Sums whose numbers travel as `wire`.
    pub fn new(wire: Wire) -> Self {
        Self { wire, ..Self::default() }
    }

    /// Replaces every number by its sum over all ranks.
    ///
    /// With [`Wire::Bf16`], what each rank contributes and the sums are rounded to bf16; a single
    /// rank rounds nothing.
    ///
    /// # Errors
    /// [`CollectiveError`] if a rank is lost, does not arrive in time or passes another length.
    pub fn sum(
        &mut self,
        collective: &mut dyn Collective,
        numbers: &mut [f32],
    ) -> Result<(), CollectiveError> {
        if collective.size() == 1 {
            return Ok(());
        }
        numbers.chunks_mut(BUCKET).try_for_each(|bucket| self.sum_bucket(collective, bucket))
    }

    fn sum_bucket(
        &mut self,
        collective: &mut dyn Collective,
        bucket: &mut [f32],
    ) -> Result<(), CollectiveError> {
        let ranks = collective.size();
        let part = bucket.len().div_ceil(ranks);
        let bytes = part * self.wire.bytes();
        self.send.clear();
        self.wire.encode(bucket, &mut self.send);
        self.send.resize(ranks * bytes, 0);
        self.receive.resize(ranks * bytes, 0);
        collective.all_to_all(&self.send, &mut self.receive)?;

        self.sums.clear();
        self.sums.resize(part, 0.0);
        for (rank, numbers) in self.receive.chunks_exact(bytes).enumerate() {
            match rank {
                0 => self.wire.decode(numbers, &mut self.sums, |sum, number| *sum = number),
                _ => self.wire.decode(numbers, &mut self.sums, |sum, number| *sum += number),
            }
        }
        self.send.clear();
        self.wire.encode(&self.sums, &mut self.send);
        collective.all_gather(&self.send, &mut self.receive)?;
        self.wire.decode(&self.receive, bucket, |number, sum| *number = sum);
        Ok(())
    }
}

/// The numbers of every rank, in the order of ranks; all pass equally many.
///
/// # Errors
/// As [`AllReduce::sum`].
pub fn gather_f64(
    collective: &mut dyn Collective,
    numbers: &[f64],
) -> Result<Vec<Vec<f64>>, CollectiveError> {
    let send: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut receive = vec![0; send.len() * collective.size()];
    collective.all_gather(&send, &mut receive)?;
    let numbers = |rank: usize| {
        let own = &receive[rank * send.len()..][..send.len()];
        own.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    };
    Ok((0..collective.size()).map(numbers).collect())
}

/// Replaces every number by its sum over all ranks, for few numbers: losses, counts, flags.
///
/// # Errors
/// As [`AllReduce::sum`].
pub fn sum_f64(
    collective: &mut dyn Collective,
    numbers: &mut [f64],
) -> Result<(), CollectiveError> {
    if collective.size() == 1 {
        return Ok(());
    }
    for (rank, own) in gather_f64(collective, numbers)?.into_iter().enumerate() {
        for (sum, number) in numbers.iter_mut().zip(own) {
            *sum = if rank == 0 { number } else { *sum + number };
        }
    }
    Ok(())
}
