//! The peak rate of multiply-adds of one thread.

use std::hint::black_box;

use crate::dispatch::{Kernel, Vectors};
use crate::vector::{MAX_LANES, Simd};

/// Independent chains: a latency of 4 on two units needs 8, and 12 fit into the registers.
const CHAINS: usize = 12;

/// Multiply-adds in registers without memory access, for benchmarks: their rate is the peak that
/// kernels are compared with.
#[derive(Debug, Clone, Copy)]
pub struct RegisterPeak(Vectors);

impl RegisterPeak {
    /// The probe with the vectors of an instruction set.
    #[must_use]
    pub const fn new(vectors: Vectors) -> Self {
        Self(vectors)
    }

    /// Operations of one round, a multiply-add counting two.
    #[must_use]
    pub const fn operations(self) -> u64 {
        (2 * self.0.isa().lanes() * CHAINS) as u64
    }

    /// Computes `rounds` rounds; the result depends on all of them.
    ///
    /// Each of the chains of each lane computes `x ← 0.001 + 0.999·x` from 0; the result is their
    /// sum.
    #[must_use]
    pub fn run(self, rounds: u64) -> f32 {
        self.0.run(Rounds(rounds))
    }
}

struct Rounds(u64);

impl Kernel for Rounds {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut chains = [simd.zero(); CHAINS];
        let (constant, factor) = (simd.splat(black_box(0.001)), simd.splat(0.999));
        for _ in 0..self.0 {
            for chain in &mut chains {
                *chain = simd.multiply_add(constant, factor, *chain);
            }
        }
        let sum = chains.into_iter().fold(simd.zero(), |sum, chain| simd.add(sum, chain));
        let mut lanes = [0.0; MAX_LANES];
        simd.write(&mut lanes, sum);
        lanes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn every_set_computes_the_same_recurrence() {
        let expected = 1.0 - 0.999_f64.powi(1000);
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let peak = RegisterPeak::new(isa.vectors());
            let chains = (CHAINS * isa.lanes()) as f64;
            assert_eq!(peak.operations() as f64, 2.0 * chains);
            let found = f64::from(peak.run(1000)) / chains;
            assert!((found / expected - 1.0).abs() < 1e-4, "{isa}: {found}");
        }
    }
}
