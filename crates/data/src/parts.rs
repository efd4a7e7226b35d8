//! Dividing samples into parts that have similar fractions of every class and keep groups together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::error::DataError;
use crate::random::{Purpose, Random};

/// Divides samples into parts, such as the folds of a cross-validation, and returns the part of
/// each sample.
///
/// Every part gets its share of every class as nearly as possible; samples of one group are in one
/// part. Without `groups`, each sample is a group. Groups are dealt from the largest to the
/// smallest, each to the part where the class counts stay nearest to the shares; a function of the
/// labels, the groups and the seed.
///
/// `labels` has the class of each sample, `groups` its group, and `shares` the relative size of
/// each part.
///
/// # Errors
/// [`DataError::Setting`] for fewer than two parts, for a share that is not above 0, and for fewer
/// groups than parts.
///
/// # Panics
/// If `groups` has another length than `labels`.
///
/// # Example
/// ```
/// use updraft_data::stratified_parts;
///
/// let labels = [0, 0, 0, 0, 1, 1, 1, 1];
/// let patients = [0, 0, 1, 1, 2, 2, 3, 3];
/// let folds = stratified_parts(&labels, Some(&patients), &[1.0, 1.0], 7)?;
/// assert!(folds.chunks(2).all(|own| own[0] == own[1]));
/// let ones = |fold| (0..8).filter(|&at| folds[at] == fold).map(|at| labels[at]).sum::<usize>();
/// assert_eq!((ones(0), ones(1)), (2, 2));
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub fn stratified_parts(
    labels: &[usize],
    groups: Option<&[usize]>,
    shares: &[f64],
    seed: u64,
) -> Result<Vec<usize>, DataError> {
    let refuse = |name, value: String, expected: &str| {
        Err(DataError::Setting { name, value, expected: expected.to_owned() })
    };
    if shares.len() < 2 {
        return refuse("parts", shares.len().to_string(), "at least 2");
    }
    if let Some(share) = shares.iter().find(|share| !(share.is_finite() && **share > 0.0)) {
        return refuse("share", share.to_string(), "a finite number above 0");
    }
    let mut members = members(labels.len(), groups);
    if members.len() < shares.len() {
        let expected = format!("at most the number of groups, {}", members.len());
        return refuse("parts", shares.len().to_string(), &expected);
    }
    Random::new(Purpose::Split, seed, 1, 0).shuffle(&mut members);
    members.sort_by_key(|group| Reverse(group.len()));
    let classes = labels.iter().max().map_or(0, |most| most + 1);
    let mut totals = vec![0.0_f64; classes];
    labels.iter().for_each(|&label| totals[label] += 1.0);
    let mut counts = vec![vec![0.0_f64; classes]; shares.len()];
    let (mut sizes, mut parts) = (vec![0.0_f64; shares.len()], vec![0; labels.len()]);
    let count = members.len();
    for (at, group) in members.into_iter().enumerate() {
        let mut own: BTreeMap<usize, f64> = BTreeMap::new();
        group.iter().for_each(|&sample| *own.entry(labels[sample]).or_default() += 1.0);
        // The increase of Σ count² / (share · total²), which is least where every count is its
        // share of the total.
        let cost = |part: usize| {
            let of = |(&class, &added): (&usize, &f64)| {
                added * (2.0 * counts[part][class] + added) / totals[class].powi(2)
            };
            own.iter().map(of).sum::<f64>() / shares[part]
        };
        let rank = |part: usize| (cost(part), sizes[part] / shares[part]);
        let empty = sizes.iter().filter(|size| **size == 0.0).count();
        // The last groups fill the parts that would have none.
        let must_fill = empty >= count - at;
        let allowed = (0..shares.len()).filter(|&part| !must_fill || sizes[part] == 0.0);
        let best = allowed.min_by(|&a, &b| {
            let ((cost_a, size_a), (cost_b, size_b)) = (rank(a), rank(b));
            cost_a.total_cmp(&cost_b).then(size_a.total_cmp(&size_b))
        });
        let best = best.expect("an empty part is left as long as one must be filled");
        own.iter().for_each(|(&class, added)| counts[best][class] += added);
        sizes[best] += group.len() as f64;
        group.iter().for_each(|&sample| parts[sample] = best);
    }
    Ok(parts)
}

/// The samples of each group, in the order in which groups first appear.
fn members(samples: usize, groups: Option<&[usize]>) -> Vec<Vec<usize>> {
    let Some(groups) = groups else { return (0..samples).map(|sample| vec![sample]).collect() };
    assert_eq!(groups.len(), samples, "every sample has a group");
    let (mut places, mut members): (BTreeMap<usize, usize>, Vec<Vec<usize>>) = Default::default();
    for (sample, &group) in groups.iter().enumerate() {
        let place = *places.entry(group).or_insert(members.len());
        if place == members.len() {
            members.push(Vec::new());
        }
        members[place].push(sample);
    }
    members
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn folds_without_groups_have_similar_counts_of_every_class(
            labels in proptest::collection::vec(0_usize..4, 10..200),
            folds in 2_usize..6,
            seed: u64,
        ) {
            let parts = stratified_parts(&labels, None, &vec![1.0; folds], seed).unwrap();
            for class in 0..4 {
                let count = |fold: usize| {
                    let is_own = |at: &usize| parts[*at] == fold && labels[*at] == class;
                    (0..labels.len()).filter(is_own).count()
                };
                let counts: Vec<usize> = (0..folds).map(count).collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                prop_assert!(most - least <= 2, "{counts:?}");
            }
            prop_assert_eq!(&parts, &stratified_parts(&labels, None, &vec![1.0; folds], seed).unwrap());
        }

        #[test]
        fn a_group_is_in_one_part_and_no_part_is_empty(
            rows in proptest::collection::vec((0_usize..3, 0_usize..12), 30..150),
            seed: u64,
        ) {
            let labels: Vec<usize> = rows.iter().map(|row| row.0).collect();
            let groups: Vec<usize> = rows.iter().map(|row| row.1).collect();
            let distinct = groups.iter().collect::<std::collections::BTreeSet<_>>().len();
            prop_assume!(distinct >= 3);
            let parts = stratified_parts(&labels, Some(&groups), &[0.6, 0.2, 0.2], seed).unwrap();
            for part in 0..3 {
                prop_assert!(parts.contains(&part));
            }
            for (a, b) in (0..rows.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                prop_assert!(groups[a] != groups[b] || parts[a] == parts[b]);
            }
        }
    }

    #[test]
    fn parts_have_their_shares() {
        let labels: Vec<usize> = (0..1000).map(|at| at % 3).collect();
        let groups: Vec<usize> = (0..1000).map(|at| at * 7 % 200).collect();
        for groups in [None, Some(groups.as_slice())] {
            let parts = stratified_parts(&labels, groups, &[0.8, 0.2], 3).unwrap();
            let held_out = parts.iter().filter(|part| **part == 1).count();
            assert!((190..=210).contains(&held_out), "{held_out}");
        }
        let other = stratified_parts(&labels, None, &[0.8, 0.2], 4).unwrap();
        assert_ne!(other, stratified_parts(&labels, None, &[0.8, 0.2], 3).unwrap());
    }

    #[test]
    fn too_few_groups_parts_and_shares_are_refused() {
        let message = |groups: &[usize], shares: &[f64]| {
            stratified_parts(&[0, 1, 0], Some(groups), shares, 0).unwrap_err().to_string()
        };
        assert!(message(&[5, 5, 5], &[1.0, 1.0]).contains("the number of groups, 1"));
        assert!(message(&[0, 1, 2], &[1.0]).contains("at least 2"));
        assert!(message(&[0, 1, 2], &[1.0, 0.0]).contains("above 0"));
    }
}
