//! One rank of several that are not connected, to time what a rank does around an exchange.

use crate::{Collective, CollectiveError};

/// Rank 0 of several, of which it is the only one.
///
/// Every call returns at once with as many bytes as the other ranks would send: zeros, so that a sum
/// is what this rank contributes, and elsewhere what this rank sends itself.
#[derive(Debug)]
pub struct Unconnected {
    ranks: usize,
    /// What was sent to all ranks, of which each returns its part, as the sum of that part and zeros.
    parts: Option<Vec<u8>>,
}

impl Unconnected {
    /// Rank 0 of so many.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        assert!(ranks > 0, "there is at least one rank");
        Self { ranks, parts: None }
    }
}

impl Collective for Unconnected {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.ranks
    }

    fn broadcast(&mut self, _: usize, _: &mut [u8]) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        let (own, others) = receive.split_at_mut(send.len() / self.ranks);
        own.copy_from_slice(&send[..own.len()]);
        others.fill(0);
        self.parts.get_or_insert_default().clear();
        self.parts.get_or_insert_default().extend_from_slice(send);
        Ok(())
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        match self.parts.take() {
            Some(parts) if parts.len() == receive.len() => receive.copy_from_slice(&parts),
            _ => receive.chunks_mut(send.len().max(1)).for_each(|part| part.copy_from_slice(send)),
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllReduce, Wire, gather};

    #[test]
    fn a_sum_is_what_the_rank_contributes_and_texts_are_its_own() {
        for ranks in [1, 2, 3, 64] {
            let mut rank = Unconnected::new(ranks);
            let numbers: Vec<f32> = (0..1000).map(|at| at as f32 - 500.0).collect();
            for wire in [Wire::F32, Wire::Bf16] {
                let mut sums = numbers.clone();
                let mut all_reduce = AllReduce::new(wire);
                all_reduce.sum(&mut rank, &mut sums).unwrap();
                let is_exact = wire == Wire::F32 || ranks == 1;
                let near = |sum: f32, number: f32| (sum - number).abs() <= number.abs() / 256.0;
                let mut pairs = sums.iter().zip(&numbers);
                let equal = match is_exact {
                    true => sums == numbers,
                    false => pairs.all(|(&sum, &number)| near(sum, number)),
                };
                assert!(equal, "{ranks} ranks, {wire:?}");
                let texts = gather(&mut rank, b"own").unwrap();
                assert_eq!(texts, vec![b"own".to_vec(); ranks]);
            }
        }
    }
}
