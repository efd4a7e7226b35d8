//! The largest batch that fits, by bisection.

use crate::error::TrainError;

/// The range of a search for a batch size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchSearch {
    /// The smallest batch worth training with, at least 1.
    pub least: usize,
    /// The largest batch to try, at least the smallest.
    pub most: usize,
    /// The share of the largest fitting batch that is left free, in `[0, 1)`.
    pub head_room: f64,
}

/// Whether a batch size fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// A step and an evaluation succeeded.
    Fits,
    /// There was not enough memory.
    TooLarge,
}

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFound {
    /// The batch size to use: the largest that fits, less the head room; this size was probed, too.
    pub batch: usize,
    /// The largest size that fits.
    pub largest: usize,
    /// The smallest size that does not fit; `None` if the largest allowed one fits.
    pub too_large: Option<usize>,
    /// The number of probed sizes.
    pub probes: usize,
}

/// The bisection ends when the two sizes differ by this fraction.
const CLOSE: f64 = 0.05;

impl BatchSearch {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self { least, most, head_room } = self;
        TrainError::check(&[("least", least, *least > 0, "at least 1")])?;
        if most < least {
            let expected = format!("at least `least`, which is {least}");
            return Err(TrainError::setting("most", most, expected));
        }
        let is_share = (0.0..1.0).contains(head_room);
        TrainError::check(&[("head_room", head_room, is_share, "at least 0 and below 1")])
    }

    /// Doubles the batch until it does not fit, then bisects to within 5 %.
    ///
    /// `probe` runs a whole step (forward, backward, optimizer state) and an evaluation with a
    /// batch of that size, on copies, so that nothing is changed. The returned size was probed,
    /// too. `None` if the smallest does not fit.
    ///
    /// # Errors
    /// [`TrainError::Setting`] before anything is probed, or the first error of `probe` that is not
    /// about memory.
    pub fn run<E: From<TrainError>>(
        &self,
        probe: &mut dyn FnMut(usize) -> Result<Fit, E>,
    ) -> Result<Option<BatchFound>, E> {
        self.validate()?;
        let mut probes = 0;
        let mut fits = |batch: usize| {
            probes += 1;
            Ok::<bool, E>(probe(batch)? == Fit::Fits)
        };
        if !fits(self.least)? {
            return Ok(None);
        }
        let (mut largest, mut too_large) = (self.least, None);
        while too_large.is_none() && largest < self.most {
            let next = largest.saturating_mul(2).min(self.most);
            match fits(next)? {
                true => largest = next,
                false => too_large = Some(next),
            }
        }
        while let Some(failed) = too_large {
            let gap = failed - largest;
            if gap <= 1 || gap as f64 <= CLOSE * largest as f64 {
                break;
            }
            let middle = largest + gap / 2;
            match fits(middle)? {
                true => largest = middle,
                false => too_large = Some(middle),
            }
        }
        // Memory is not always monotone, so the returned size is probed.
        let mut batch = ((largest as f64 * (1.0 - self.head_room)) as usize).max(self.least);
        while batch != largest && batch > self.least && !fits(batch)? {
            batch = (batch * 19 / 20).max(self.least);
        }
        Ok(Some(BatchFound { batch, largest, too_large, probes }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(search: BatchSearch, limit: usize) -> (Option<BatchFound>, Vec<usize>) {
        let mut probed = Vec::new();
        let found = search.run(&mut |batch| {
            probed.push(batch);
            Ok::<_, TrainError>(if batch <= limit { Fit::Fits } else { Fit::TooLarge })
        });
        (found.expect("no error"), probed)
    }

    proptest! {
        #[test]
        fn the_found_size_fits_and_is_within_five_per_cent_of_the_limit(
            limit in 1_usize..100_000,
            least in 1_usize..64,
            head_room in 0.0_f64..0.5,
        ) {
            let most = 65_536;
            let (found, probed) = search(BatchSearch { least, most, head_room }, limit);
            prop_assert!(probed.len() < 40, "{} probes", probed.len());
            let Some(found) = found else {
                prop_assert!(limit < least);
                return Ok(());
            };
            prop_assert!(found.batch <= found.largest && found.largest <= limit);
            prop_assert!(probed.contains(&found.batch) && probed.contains(&found.largest));
            let best = limit.min(most) as f64;
            prop_assert!(found.largest as f64 >= best / 1.05 - 1.0, "{found:?}");
            let wanted = (found.largest as f64 * (1.0 - head_room)) as usize;
            prop_assert_eq!(found.batch, wanted.max(least));
        }
    }

    #[test]
    fn an_error_that_is_not_about_memory_ends_the_search() {
        let search = BatchSearch { least: 1, most: 64, head_room: 0.0 };
        let error = search.run(&mut |batch| match batch {
            8 => Err(TrainError::NoBatches { samples: 3, batch }),
            _ => Ok(Fit::Fits),
        });
        assert!(matches!(error, Err(TrainError::NoBatches { batch: 8, .. })));
    }

    #[test]
    fn numbers_out_of_range_are_refused_before_anything_is_probed() {
        let good = BatchSearch { least: 1, most: 64, head_room: 0.1 };
        for (bad, name) in [
            (BatchSearch { least: 0, ..good }, "`least`"),
            (BatchSearch { most: 0, ..good }, "`most`"),
            (BatchSearch { head_room: 1.0, ..good }, "`head_room`"),
        ] {
            let error = bad.run::<TrainError>(&mut |_| panic!("probed")).expect_err("refused");
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
}
