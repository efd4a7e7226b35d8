//! A histogram whose range grows, in constant memory.

/// Bins on either side of zero.
pub(super) const BINS: usize = 2048;

/// Counts of numbers on either side of zero, in bins of one width.
///
/// The width is a power of two, and doubles, pair by pair, until the greatest number fits.
/// So the counts depend on the numbers alone, never on their order or their batches.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Histogram {
    /// The count of zeros, which are frequent after rectifiers and have an exact code.
    zeros: u64,
    /// Bins of numbers above zero, and of numbers below, counted away from it.
    sides: [Box<[u64]>; 2],
    /// The binary logarithm of a bin's width; none before the first number that is not zero.
    exponent: Option<i32>,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let side = || vec![0; BINS].into_boxed_slice();
        Self { zeros: 0, sides: [side(), side()], exponent: None }
    }

    /// Counts finite numbers.
    pub(super) fn add(&mut self, values: &[f32]) {
        let greatest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        if greatest > 0.0 {
            self.grow(greatest);
        }
        let inverse = (-f64::from(self.exponent.unwrap_or(0))).exp2();
        for &value in values {
            let side = usize::from(value < 0.0);
            // Exact: a power of two, and every number lies below the last bin's end.
            let bin = (f64::from(value).abs() * inverse) as usize;
            self.sides[side][bin.min(BINS - 1)] += 1;
        }
        // Counted in a separate loop, so that the loop above has no branch.
        let zeros = values.iter().filter(|&&value| value == 0.0).count() as u64;
        self.sides[0][0] -= zeros;
        self.zeros += zeros;
    }

    /// Bins in the order of their numbers: lower end, upper end, count. Empty bins are left out;
    /// both ends of the one that counts zeros are zero.
    pub(super) fn bins(&self) -> impl Iterator<Item = ([f64; 2], u64)> + '_ {
        let width = f64::from(self.exponent.unwrap_or(0)).exp2();
        let [above, below] = &self.sides;
        let below = below.iter().enumerate().rev().map(move |(bin, &count)| {
            ([-(bin as f64 + 1.0) * width, -(bin as f64) * width], count)
        });
        let above = above
            .iter()
            .enumerate()
            .map(move |(bin, &count)| ([bin as f64 * width, (bin as f64 + 1.0) * width], count));
        let zeros = std::iter::once(([0.0; 2], self.zeros));
        below.chain(zeros).chain(above).filter(|&(_, count)| count > 0)
    }

    /// Widens the bins until `greatest` is below the last one's end.
    fn grow(&mut self, greatest: f32) {
        let wanted = f64::from(greatest).log2().floor() as i32 + 1 - BINS.ilog2() as i32;
        let wanted = if f64::from(greatest) < f64::from(wanted + BINS.ilog2() as i32).exp2() {
            wanted
        } else {
            wanted + 1
        };
        let Some(exponent) = self.exponent else {
            self.exponent = Some(wanted);
            return;
        };
        for _ in exponent..wanted {
            for side in &mut self.sides {
                for bin in 0..BINS / 2 {
                    side[bin] = side[2 * bin] + side[2 * bin + 1];
                }
                side[BINS / 2..].fill(0);
            }
        }
        self.exponent = Some(exponent.max(wanted));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_lie_in_their_bins() {
        let mut histogram = Histogram::new();
        histogram.add(&[0.0, 0.0]);
        histogram.add(&[1.0, -0.5, 0.25]);
        histogram.add(&[300.0]);
        let bins: Vec<_> = histogram.bins().collect();
        // The greatest of 300 makes bins of 512/2048 = 1/4.
        assert_eq!(
            bins,
            [
                ([-0.75, -0.5], 1),
                ([0.0, 0.0], 2),
                ([0.25, 0.5], 1),
                ([1.0, 1.25], 1),
                ([300.0, 300.25], 1),
            ]
        );
    }

    proptest! {
        #[test]
        fn neither_order_nor_batches_change_a_count(
            values in prop::collection::vec(-1e6_f32..1e6, 1..200),
            small in prop::collection::vec(-1e-3_f32..1e-3, 1..200),
            batch in 1_usize..50,
        ) {
            let mut whole = Histogram::new();
            whole.add(&[values.clone(), small.clone()].concat());
            let mut parts = Histogram::new();
            small.chunks(batch).chain(values.chunks(batch)).for_each(|part| parts.add(part));
            prop_assert_eq!(&whole, &parts);
            let count: u64 = whole.bins().map(|(_, count)| count).sum();
            prop_assert_eq!(count as usize, values.len() + small.len());
        }

        #[test]
        fn every_number_lies_within_its_bin(value in any::<f32>().prop_filter("finite", |v| v.is_finite())) {
            let mut histogram = Histogram::new();
            histogram.add(&[value]);
            let ([low, high], _) = histogram.bins().next().expect("one bin");
            let value = f64::from(value);
            prop_assert!(low <= value && value <= high, "{low} {value} {high}");
        }
    }
}
