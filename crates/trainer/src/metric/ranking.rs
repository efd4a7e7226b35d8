//! Ranking metrics of scores: AUC, average precision, and the threshold of the best F1.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The scores of the samples with and without a label.
///
/// All of them are kept, four bytes each, so that the numbers are exact.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ranking {
    positives: Scores,
    negatives: Scores,
}

/// Numbers that serialize as bits, because JSON readers may round decimals.
#[derive(Debug, Clone, PartialEq, Default)]
struct Scores(Vec<f32>);

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|score| score.to_bits()))
    }
}

impl<'de> Deserialize<'de> for Scores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bits = Vec::<u32>::deserialize(deserializer)?;
        Ok(Self(bits.into_iter().map(f32::from_bits).collect()))
    }
}

impl Ranking {
    /// Adds a sample with its score and whether it has the label. NaN ranks above all numbers.
    pub fn add(&mut self, score: f32, has_label: bool) {
        if has_label { &mut self.positives } else { &mut self.negatives }.0.push(score);
    }

    /// Adds the samples of another part of the data set.
    pub fn merge(&mut self, other: &Self) {
        self.positives.0.extend_from_slice(&other.positives.0);
        self.negatives.0.extend_from_slice(&other.negatives.0);
    }

    /// The area under the ROC curve: how often a sample with the label has a higher score than one
    /// without, ties counted half; `None` unless there are both.
    #[must_use]
    pub fn auc(&self) -> Option<f64> {
        let (positives, negatives) = (self.positives.0.len(), self.negatives.0.len());
        if positives == 0 || negatives == 0 {
            return None;
        }
        let (mut below, mut won) = (0_u64, 0.0);
        for [hits, misses] in self.steps().into_iter().rev() {
            won += hits as f64 * (below as f64 + misses as f64 / 2.0);
            below += misses;
        }
        Some(won / (positives as f64 * negatives as f64))
    }

    /// The average precision: the sum over falling thresholds of the recall gained times the
    /// precision there; `None` unless there are samples with the label.
    #[must_use]
    pub fn average_precision(&self) -> Option<f64> {
        let positives = self.positives.0.len();
        if positives == 0 {
            return None;
        }
        let (mut hit, mut seen, mut sum) = (0, 0, 0.0);
        for [hits, misses] in self.steps() {
            hit += hits;
            seen += hits + misses;
            sum += hits as f64 / positives as f64 * hit as f64 / seen as f64;
        }
        Some(sum)
    }

    /// The threshold with the highest F1, at or above which the label is predicted; the highest
    /// such threshold, and `None` unless there are samples with the label.
    #[must_use]
    pub fn best_threshold(&self) -> Option<f32> {
        let positives = self.positives.0.len() as u64;
        let (mut hit, mut seen, mut best) = (0, 0, None);
        for (score, [hits, misses]) in self.scored_steps() {
            hit += hits;
            seen += hits + misses;
            let f1 = 2.0 * hit as f64 / (positives + seen) as f64;
            if hit > 0 && best.is_none_or(|(other, _)| f1 > other) {
                best = Some((f1, score));
            }
        }
        best.map(|(_, threshold)| threshold)
    }

    fn steps(&self) -> Vec<[u64; 2]> {
        self.scored_steps().into_iter().map(|(_, counts)| counts).collect()
    }

    /// Each score from the highest to the lowest, with how many samples with the label have it and
    /// how many without.
    fn scored_steps(&self) -> Vec<(f32, [u64; 2])> {
        let of = |scores: &Scores, at: usize| {
            // −0 and 0 are one score.
            scores.0.iter().map(|score| (score + 0.0, at)).collect::<Vec<_>>()
        };
        let mut all = [of(&self.positives, 0), of(&self.negatives, 1)].concat();
        all.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut steps: Vec<(f32, [u64; 2])> = Vec::new();
        for (score, at) in all {
            if steps.last().is_none_or(|(last, _)| last.to_bits() != score.to_bits()) {
                steps.push((score, [0, 0]));
            }
            steps.last_mut().expect("one was pushed").1[at] += 1;
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_known_by_hand_and_parts_merge() {
        // The example of scikit-learn's roc_auc_score and average_precision_score.
        let samples = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
        let mut whole = Ranking::default();
        assert_eq!((whole.auc(), whole.average_precision()), (None, None));
        let mut parts = [Ranking::default(), Ranking::default()];
        for (at, (score, has_label)) in samples.into_iter().enumerate() {
            whole.add(score, has_label);
            parts[at / 3].add(score, has_label);
        }
        let [mut merged, last] = parts;
        merged.merge(&last);
        assert_eq!((merged.auc(), whole.auc()), (Some(0.75), Some(0.75)));
        let average = whole.average_precision().expect("two with the label");
        assert!((average - 0.833_333_333_333_333_3).abs() < 1e-15, "{average}");
        assert_eq!(whole.best_threshold(), Some(0.35));
        let mut ties = Ranking::default();
        for (score, has_label) in [(0.0, true), (-0.0, false), (0.0, false)] {
            ties.add(score, has_label);
        }
        assert_eq!(ties.auc(), Some(0.5));
        let text = serde_json::to_string(&whole).expect("JSON");
        assert_eq!(serde_json::from_str::<Ranking>(&text).expect("scores"), whole);
    }
}
