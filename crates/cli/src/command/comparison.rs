//! Comparison of arms with the first one: differences, standard errors, outcomes.

use serde::Serialize;
use updraft_trainer::{Direction, MetricSpec, Unit};

use crate::progress::metric_text;
use crate::wrap::hanging;

/// The results of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score {
    /// In per cent for fractions, otherwise in the metric's unit.
    pub(super) value: f64,
    pub(super) cpu_s: Option<f64>,
    pub(super) peak_bytes: Option<u64>,
    /// Memory of live tensors on the device, if its backend reports it.
    pub(super) device_peak_bytes: Option<u64>,
    /// The same with what its allocator has reserved.
    pub(super) device_reserved_bytes: Option<u64>,
}

/// An arm compared with the first.
#[derive(Debug, Serialize)]
pub(super) struct Compared<'a> {
    settings: &'a str,
    /// The seeds that both arms have.
    seeds: usize,
    /// The metric on the test data, one per seed; fractions in per cent.
    values: Vec<f64>,
    /// The mean difference to the first arm; in percentage points for fractions.
    difference: f64,
    /// The standard error of that mean; `None` for a single seed.
    standard_error: Option<f64>,
    outcome: Outcome,
    cpu_s: Option<f64>,
    peak_bytes: Option<u64>,
    device_peak_bytes: Option<u64>,
    device_reserved_bytes: Option<u64>,
}

/// Comparison of an arm's metric with the first arm's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// |difference| is at most the tolerance and twice the standard error.
    WithinBand,
    Better,
    Worse,
}

/// The arm with the best mean.
pub(super) fn best(compared: &[Compared<'_>], direction: Direction) -> usize {
    let better = |a: f64, b: f64| match direction {
        Direction::HigherIsBetter => a > b,
        Direction::LowerIsBetter => a < b,
    };
    let mut best = 0;
    for (index, arm) in compared.iter().enumerate() {
        if better(arm.difference, compared[best].difference) {
            best = index;
        }
    }
    best
}

/// A value of the metric, with fractions in per cent.
pub(super) fn shown(metric: &MetricSpec, value: f64) -> String {
    match metric.unit {
        Unit::Share => format!("{value:6.2} %"),
        _ => format!("{:>8}", metric_text(metric, Some(value))),
    }
}

/// A difference of values of the metric: points with two decimals, else three digits.
fn apart(metric: &MetricSpec, value: f64) -> String {
    match metric.unit {
        Unit::Share => format!("{value:.2}"),
        _ if value == 0.0 => "0".to_owned(),
        _ if !(1e-4..1e5).contains(&value) => format!("{value:.2e}"),
        _ => {
            let decimals = (2.0 - value.log10().floor()).max(0.0) as usize;
            format!("{value:.decimals$}")
        }
    }
}

pub(super) fn compare<'a>(
    settings: &'a str,
    these: &[Score],
    first: &[Score],
    band: f64,
    direction: Direction,
) -> Compared<'a> {
    let differences: Vec<f64> =
        these.iter().zip(first).map(|(this, first)| this.value - first.value).collect();
    let (difference, standard_error) = mean_and_error(&differences);
    let outcome = match direction.gain(difference, 0.0) {
        gain if gain.abs() <= band + 2.0 * standard_error.unwrap_or(0.0) => Outcome::WithinBand,
        gain if gain > 0.0 => Outcome::Better,
        _ => Outcome::Worse,
    };
    let most = |of: fn(&Score) -> Option<u64>| these.iter().filter_map(of).max();
    let cpu: Option<Vec<f64>> = these.iter().map(|score| score.cpu_s).collect();
    Compared {
        settings,
        seeds: differences.len(),
        values: these.iter().map(|score| score.value).collect(),
        difference,
        standard_error,
        outcome,
        cpu_s: cpu.map(|cpu| mean_and_error(&cpu).0),
        peak_bytes: most(|score| score.peak_bytes),
        device_peak_bytes: most(|score| score.device_peak_bytes),
        device_reserved_bytes: most(|score| score.device_reserved_bytes),
    }
}

/// The mean, and its standard error `s/√n` with `s² = Σ(x − mean)²/(n − 1)`.
fn mean_and_error(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt()))
}

impl Compared<'_> {
    pub(super) fn line(&self, metric: &MetricSpec) -> String {
        let mean = shown(metric, mean_and_error(&self.values).0);
        let points = if metric.unit == Unit::Share { " points" } else { "" };
        let sign = if self.difference < 0.0 { '-' } else { '+' };
        let difference = apart(metric, self.difference.abs());
        let error = match self.standard_error {
            None => "one seed".to_owned(),
            Some(error) => format!("standard error {}", apart(metric, error)),
        };
        let cpu = self.cpu_s.map_or_else(String::new, |cpu| format!(", {cpu:.0} CPU-s"));
        let device = match (self.device_peak_bytes, self.device_reserved_bytes) {
            (Some(in_use), Some(reserved)) => {
                format!(", {} of {} MiB of the device in use", in_use >> 20, reserved >> 20)
            }
            _ => String::new(),
        };
        let outcome = match self.outcome {
            Outcome::WithinBand => "within the band",
            Outcome::Better => "BETTER, outside the band",
            Outcome::Worse => "WORSE, outside the band",
        };
        let text = format!(
            "{sign}{difference}{points}, {error}, {outcome}{cpu}{device}  {}",
            self.settings
        );
        hanging(&format!("{mean}  "), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<Score> {
        let score = |&value: &f64| Score {
            value,
            cpu_s: Some(2.0),
            peak_bytes: None,
            device_peak_bytes: None,
            device_reserved_bytes: None,
        };
        values.iter().map(score).collect()
    }

    #[test]
    fn the_paired_difference_and_its_error_have_their_values_by_hand() {
        // Differences 1, 2 and 3: mean 2, s = 1, error 1/√3.
        let of = |band, direction| {
            let (these, first) = (scores(&[51.0, 62.0, 43.0]), scores(&[50.0, 60.0, 40.0]));
            compare("x", &these, &first, band, direction)
        };
        let compared = of(0.5, Direction::HigherIsBetter);
        assert!((compared.difference - 2.0).abs() < 1e-12);
        let error = compared.standard_error.expect("three seeds");
        assert!((error - 1.0 / 3.0_f64.sqrt()).abs() < 1e-12, "{error}");
        // 2 is above 0.5 + 2·0.577, and not above 1 + 2·0.577.
        assert_eq!(compared.outcome, Outcome::Better);
        assert_eq!(of(0.5, Direction::LowerIsBetter).outcome, Outcome::Worse);
        assert_eq!(of(1.0, Direction::HigherIsBetter).outcome, Outcome::WithinBand);
        assert_eq!(compared.cpu_s, Some(2.0));
    }

    #[test]
    fn one_seed_has_no_error_and_an_arm_differs_from_itself_by_nothing() {
        let metric = MetricSpec::new("accuracy", Unit::Share, Direction::HigherIsBetter);
        let one = scores(&[50.0]);
        let compared = compare("x", &one, &one, 0.0, metric.direction);
        assert_eq!((compared.difference, compared.standard_error), (0.0, None));
        assert_eq!(compared.outcome, Outcome::WithinBand);
        assert_eq!(
            compared.line(&metric),
            " 50.00 %  +0.00 points, one seed, within the band, 2 CPU-s  x"
        );
        let json = serde_json::to_value(&compared).expect("plain data");
        assert!(json["device_reserved_bytes"].is_null(), "{json}");
    }

    #[test]
    fn the_memory_of_a_device_is_the_largest_of_all_seeds() {
        let metric = MetricSpec::new("accuracy", Unit::Share, Direction::HigherIsBetter);
        let mut two = scores(&[50.0, 50.0]);
        for (score, mib) in two.iter_mut().zip([300, 200]) {
            score.device_peak_bytes = Some(mib << 20);
            score.device_reserved_bytes = Some((mib + 12) << 20);
        }
        let line = compare("x", &two, &two, 0.0, metric.direction).line(&metric);
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("2 CPU-s, 300 of 312 MiB of the device in use x"), "{line}");
    }

    #[test]
    fn differences_have_enough_digits_to_be_distinguished() {
        let rmse = MetricSpec::new("rmse", Unit::Of("y".into()), Direction::LowerIsBetter);
        let texts = [0.001_234, 0.5, 12.345, 1234.5, 2e-7, 0.0].map(|value| apart(&rmse, value));
        assert_eq!(texts, ["0.00123", "0.500", "12.3", "1234", "2.00e-7", "0"]);
        let (these, first) = (scores(&[0.6421, 0.6433]), scores(&[0.6398, 0.6399]));
        let line = compare("model.hidden=[4]", &these, &first, 0.0, rmse.direction).line(&rmse);
        assert!(
            line.contains("+0.00285, standard error 0.000550, WORSE, outside the band"),
            "{line}"
        );
        assert!(line.lines().all(|line| line.chars().count() <= 80), "{line}");
    }
}
