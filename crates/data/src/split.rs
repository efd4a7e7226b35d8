//! Holding out a part of every class.

use std::cmp::Reverse;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cache::AtomicFile;
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::{Purpose, Random};
use crate::regular_file::read_regular;

/// The largest file of a split: a hundred million samples.
const MOST_BYTES: u64 = 1 << 30;

/// Two disjoint lists of sample indices, each in rising order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The training samples.
    pub kept: Vec<usize>,
    /// The held-out samples, for evaluation or calibration.
    pub held_out: Vec<usize>,
}

/// The file format of a split.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    set: String,
    hash: String,
    #[serde(flatten)]
    split: Split,
}

impl Written {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }
}

impl Split {
    /// SHA-256 of both lists, as 64 hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        let lists = [&self.kept, &self.held_out];
        let digest = lists.into_iter().fold(Digest::new("updraft split"), |digest, list| {
            list.iter().fold(digest.number(list.len()), |digest, &index| digest.number(index))
        });
        digest.hex()
    }

    /// The split as JSON, with its hash and the fingerprint of the data set, as
    /// [`read`](Self::read) reads it from a file.
    #[must_use]
    pub fn to_json(&self, set: &str) -> Vec<u8> {
        Written { set: set.to_owned(), hash: self.hash(), split: self.clone() }.json()
    }

    /// Writes [`to_json`](Self::to_json) into a file.
    ///
    /// # Errors
    /// [`DataError::Write`]; an existing file is then unchanged.
    pub fn write(&self, set: &str, path: impl AsRef<Path>) -> Result<(), DataError> {
        let mut file = AtomicFile::create(path.as_ref())?;
        file.write(&self.to_json(set))?;
        file.finish()
    }

    /// Reads a split of the set with the given fingerprint.
    ///
    /// # Errors
    /// [`DataError::Open`] if the file cannot be read, [`DataError::Split`] if it is damaged or
    /// belongs to another data set.
    pub fn read(set: &str, path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let fault = |reason: String| DataError::Split { path: path.to_owned(), reason };
        let text = read_regular(path, MOST_BYTES)
            .map_err(|cause| DataError::Open { path: path.to_owned(), cause })?;
        let written: Written =
            serde_json::from_slice(&text).map_err(|error| fault(error.to_string()))?;
        if written.set != set {
            return Err(fault(
                "it was made of another set of samples: files were added, removed or changed"
                    .to_owned(),
            ));
        }
        if written.hash != written.split.hash() {
            return Err(fault("its indices do not fit its hash".to_owned()));
        }
        Ok(written.split)
    }
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
    let counts = by_class(labels).into_iter().map(|members| {
        let wanted = (members.len() as f64 * fraction).round() as usize;
        let held_out = if members.len() < 2 { 0 } else { wanted.clamp(1, members.len() - 1) };
        (members, held_out)
    });
    Ok(hold_out(counts, seed))
}

/// Holds out a number of samples, distributed over the classes by their sizes, such as a
/// calibration set.
///
/// Each class contributes its share of `samples`, rounded down, and one more where the remainder is
/// largest (Hamilton's method; the lower class first where remainders are equal). Which ones is a
/// function of the labels and the seed.
///
/// # Errors
/// [`DataError::Setting`] for more samples than there are, or none.
///
/// # Example
/// ```
/// use updraft_data::stratified_sample;
///
/// let labels = [0, 0, 0, 0, 0, 0, 1, 1, 1];
/// let calibration = stratified_sample(&labels, 3, 7)?.held_out;
/// assert_eq!(calibration.iter().filter(|&&index| labels[index] == 0).count(), 2);
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub fn stratified_sample(labels: &[usize], samples: usize, seed: u64) -> Result<Split, DataError> {
    if samples == 0 || samples > labels.len() {
        return Err(DataError::Setting {
            name: "samples",
            value: samples.to_string(),
            expected: format!("1 to {}", labels.len()),
        });
    }
    let classes = by_class(labels);
    let total = labels.len() as u128;
    let share = |members: &Vec<usize>| members.len() as u128 * samples as u128;
    let mut counts: Vec<usize> =
        classes.iter().map(|members| (share(members) / total) as usize).collect();
    let mut by_remainder: Vec<usize> = (0..classes.len()).collect();
    by_remainder.sort_by_key(|&class| Reverse(share(&classes[class]) % total));
    let missing = samples - counts.iter().sum::<usize>();
    for &class in &by_remainder[..missing] {
        counts[class] += 1;
    }
    Ok(hold_out(classes.into_iter().zip(counts), seed))
}

/// The samples of each class, in rising order.
fn by_class(labels: &[usize]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (index, &label) in labels.iter().enumerate() {
        if label >= classes.len() {
            classes.resize_with(label + 1, Vec::new);
        }
        classes[label].push(index);
    }
    classes
}

/// Holds out a number of each class.
fn hold_out(classes: impl Iterator<Item = (Vec<usize>, usize)>, seed: u64) -> Split {
    let mut split = Split { kept: Vec::new(), held_out: Vec::new() };
    for (label, (mut members, held_out)) in classes.enumerate() {
        Random::new(Purpose::Split, seed, 0, label as u64).shuffle(&mut members);
        split.kept.extend(members.split_off(held_out));
        split.held_out.extend(members);
    }
    split.kept.sort_unstable();
    split.held_out.sort_unstable();
    split
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::fs;

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

    proptest! {
        #[test]
        fn a_sample_has_its_size_and_every_class_its_share(
            labels in proptest::collection::vec(0_usize..5, 1..200),
            part in 0.0_f64..=1.0,
            seed: u64,
        ) {
            let samples = ((labels.len() as f64 * part) as usize).max(1);
            let split = stratified_sample(&labels, samples, seed).unwrap();
            prop_assert_eq!(split.held_out.len(), samples);
            let mut all: Vec<usize> = split.kept.iter().chain(&split.held_out).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
            for class in 0..5 {
                let count = |side: &[usize]| side.iter().filter(|&&i| labels[i] == class).count();
                let (kept, held_out) = (count(&split.kept), count(&split.held_out));
                let exact = (kept + held_out) as f64 * samples as f64 / labels.len() as f64;
                prop_assert!((held_out as f64 - exact).abs() < 1.0);
            }
        }
    }

    #[test]
    fn a_split_written_down_is_read_for_its_own_set_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("splits/test.json");
        let split = stratified_split(&[0, 0, 0, 1, 1, 1], 0.4, 3).unwrap();
        split.write("the set", &path).unwrap();
        assert_eq!(Split::read("the set", &path).unwrap(), split);
        let message = |set| Split::read(set, &path).unwrap_err().to_string();
        assert!(message("another").contains("it was made of another set of samples"));
        let text = fs::read_to_string(&path).unwrap();
        let moved = text.replace("\"kept\":[", "\"kept\":[9,");
        assert_ne!(moved, text);
        fs::write(&path, moved).unwrap();
        assert!(message("the set").contains("its indices do not fit its hash"));
        fs::write(&path, &text[..20]).unwrap();
        assert!(message("the set").contains("EOF"), "{}", message("the set"));
        assert!(stratified_sample(&[0, 1], 3, 0).is_err());
        assert!(stratified_sample(&[0, 1], 0, 0).is_err());
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
