//! Moments of pairs of numbers, for correlation and explained variance.

use serde::{Deserialize, Serialize};

use super::sum::Sum;

/// The means of predictions and targets, and sums about them, in f64.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Moments {
    pub(super) count: u64,
    /// Of the predictions `p` and of the targets `t`.
    pub(super) means: [Sum; 2],
    /// `Σ(p − mean p)²`, `Σ(t − mean t)²` and `Σ(p − mean p)(t − mean t)`.
    pub(super) about_means: [Sum; 3],
}

impl Moments {
    /// From sums about other numbers than the means: `Σ(p − a)`, `Σ(t − b)`, `Σ(p − a)²`,
    /// `Σ(t − b)²` and `Σ(p − a)(t − b)` about `a` and `b`, of at least one pair.
    pub(super) fn about([a, b]: [f64; 2], count: u64, [p, t, pp, tt, pt]: [f64; 5]) -> Self {
        let n = count as f64;
        let means = [a + p / n, b + t / n];
        let about_means = [pp - p * p / n, tt - t * t / n, pt - p * t / n];
        Self { count, means: means.map(Sum::from), about_means: about_means.map(Sum::from) }
    }

    /// Adds other pairs.
    ///
    /// # Source
    /// Chan, Golub and `LeVeque` 1983, doi:10.1080/00031305.1983.10483115, equations 2.1.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (own, theirs) = (self.count as f64, other.count as f64);
        self.count += other.count;
        let all = self.count as f64;
        let distance = |of: usize| other.means[of].value() - self.means[of].value();
        let [p, t] = [distance(0), distance(1)];
        let between = own * theirs / all;
        for ((sum, theirs), product) in
            self.about_means.iter_mut().zip(&other.about_means).zip([p * p, t * t, p * t])
        {
            sum.add(theirs.value() + between * product);
        }
        self.means[0].add(p * theirs / all);
        self.means[1].add(t * theirs / all);
    }

    /// Pearson's correlation; `None` if the predictions or the targets are all equal.
    pub(super) fn correlation(&self) -> Option<f64> {
        let [pp, tt, pt] = self.about_means.map(Sum::value);
        (pp > 0.0 && tt > 0.0).then(|| pt / (pp.sqrt() * tt.sqrt()))
    }

    /// The targets' sum of squares about their mean; `None` if they are all equal.
    pub(super) fn spread(&self) -> Option<f64> {
        let spread = self.about_means[1].value();
        (spread > 0.0).then_some(spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_about_any_number_and_of_parts_are_those_of_the_whole() {
        // p = 1, 2, 6 and t = 5, 3, 4: means 3 and 4, Σ 14, 2 and −1.
        let whole = Moments::about([1.0, 5.0], 3, [6.0, -3.0, 26.0, 5.0, -7.0]);
        assert_eq!(whole.means.map(Sum::value), [3.0, 4.0]);
        assert_eq!(whole.about_means.map(Sum::value), [14.0, 2.0, -1.0]);
        let correlation = whole.correlation().expect("they differ");
        assert!((correlation + 1.0 / 28.0_f64.sqrt()).abs() < 1e-15, "{correlation}");
        let one = |p: f64, t: f64| Moments::about([p, t], 1, [0.0; 5]);
        assert_eq!((one(1.0, 5.0).correlation(), one(1.0, 5.0).spread()), (None, None));
        let mut merged = Moments::default();
        merged.merge(&one(1.0, 5.0));
        merged.merge(&Moments::default());
        let mut rest = one(2.0, 3.0);
        rest.merge(&one(6.0, 4.0));
        merged.merge(&rest);
        for (found, expected) in merged.about_means.iter().zip([14.0, 2.0, -1.0]) {
            assert!((found.value() - expected).abs() < 1e-14, "{merged:?}");
        }
    }
}
