//! Holding out a part of every class.

use crate::error::DataError;
use crate::random::{Purpose, Random};

/// Two disjoint lists of sample indices, each in rising order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The samples to learn from.
    pub kept: Vec<usize>,
    /// The samples to score on.
    pub held_out: Vec<usize>,
}

/// Holds out the same fraction of every class, rounded to whole samples.
///
/// A class of two or more samples has at least one on each side; a single sample is kept.
/// Which ones is a function of the labels and the seed.
///
/// # Errors
/// [`DataError::Setting`] for a fraction that is not above 0 and below 1.
///
/// # Example
/// ```
/// use updraft_data::stratified_split;
///
/// let labels = [0, 0, 0, 0, 1, 1, 1, 1];
/// let split = stratified_split(&labels, 0.25, 7)?;
/// assert_eq!(split.kept.len(), 6);
/// assert_eq!(split.held_out.iter().map(|&index| labels[index]).sum::<usize>(), 1);
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub fn stratified_split(labels: &[usize], fraction: f64, seed: u64) -> Result<Split, DataError> {
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(DataError::Setting {
            name: "fraction",
            value: fraction.to_string(),
            expected: "above 0 and below 1".to_owned(),
        });
    }
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (index, &label) in labels.iter().enumerate() {
        if label >= classes.len() {
            classes.resize_with(label + 1, Vec::new);
        }
        classes[label].push(index);
    }
    let mut split = Split { kept: Vec::new(), held_out: Vec::new() };
    for (label, mut members) in classes.into_iter().enumerate() {
        let wanted = (members.len() as f64 * fraction).round() as usize;
        let held_out = if members.len() < 2 { 0 } else { wanted.clamp(1, members.len() - 1) };
        Random::new(Purpose::Split, seed, 0, label as u64).shuffle(&mut members);
        split.kept.extend(members.split_off(held_out));
        split.held_out.extend(members);
    }
    split.kept.sort_unstable();
    split.held_out.sort_unstable();
    Ok(split)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_sample_is_on_one_side_and_every_class_on_both(
            labels in proptest::collection::vec(0_usize..5, 1..200),
            fraction in 0.01_f64..0.99,
            seed: u64,
        ) {
            let split = stratified_split(&labels, fraction, seed).unwrap();
            let mut all: Vec<usize> = split.kept.iter().chain(&split.held_out).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
            for class in 0..5 {
                let count = |side: &[usize]| side.iter().filter(|&&i| labels[i] == class).count();
                let (kept, held_out) = (count(&split.kept), count(&split.held_out));
                let exact = (kept + held_out) as f64 * fraction;
                prop_assert!(kept + held_out < 2 || (kept > 0 && held_out > 0));
                prop_assert!((held_out as f64 - exact).abs() <= 1.0);
            }
            prop_assert_eq!(&split, &stratified_split(&labels, fraction, seed).unwrap());
        }
    }

    #[test]
    fn another_seed_holds_out_other_samples() {
        let labels = [0; 100];
        let one = stratified_split(&labels, 0.5, 1).unwrap();
        assert_ne!(one, stratified_split(&labels, 0.5, 2).unwrap());
    }

    #[test]
    fn a_fraction_that_leaves_nothing_is_refused() {
        for fraction in [0.0, 1.0, -0.5, f64::NAN] {
            let error = stratified_split(&[0, 0], fraction, 0).unwrap_err();
            assert!(error.to_string().starts_with("`fraction` is "), "{error}");
        }
    }
}
