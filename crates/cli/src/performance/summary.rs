//! Medians and spreads of repeated measurements, and rows beside their baseline.

use serde_json::{Value, json};

use super::compared::Difference;
use super::order::{Answer, Step, Work};
use super::rows::{Kind, Row};

/// Smaller differences of the rate are not reported as faster or slower, whatever the spread is.
const LEAST_DIFFERENCE: f64 = 0.02;

/// With so many repeats a row is also faster or slower if each of them is: by chance that is one
/// case in sixteen.
const ENOUGH_REPEATS: usize = 5;

/// A median with the smallest and the largest value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[0], values[values.len() - 1]);
        Self { median: quantile(&values, 0.5), low, high }
    }

    /// Half the range, relative to the median.
    pub(crate) fn relative(&self) -> f64 {
        0.5 * (self.high - self.low) / self.median
    }

    fn json(&self) -> Value {
        json!({ "median": self.median, "low": self.low, "high": self.high })
    }
}

/// A quantile of sorted values, interpolated between neighbors.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = at * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// What the repeats of a row measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) answers: Vec<Answer>,
    /// Samples a second, over all timed steps of a repeat.
    pub(crate) rate: Spread,
    /// Seconds of a step, quantiles over the steps of a repeat.
    pub(crate) p50_s: Spread,
    pub(crate) p95_s: Spread,
    /// The share of the time that waited for data.
    pub(crate) data_share: Spread,
    pub(crate) first_s: Spread,
    pub(crate) open_s: Spread,
    /// The largest of all repeats: of the device if it has memory pools, else of the process.
    pub(crate) peak_bytes: Option<u64>,
    /// Of these pools alone: live tensors, and what is reserved for them.
    pub(crate) device_peak_bytes: Option<u64>,
    pub(crate) device_reserved_bytes: Option<u64>,
}

impl Measured {
    /// Of at least one repeat.
    pub(crate) fn of(answers: Vec<Answer>) -> Self {
        let over = |value: &dyn Fn(&Answer) -> f64| Spread::of(answers.iter().map(value).collect());
        let quantile_of = |answer: &Answer, at: f64| {
            let mut seconds: Vec<f64> = answer.steps.iter().map(|step| step.seconds).collect();
            seconds.sort_by(f64::total_cmp);
            quantile(&seconds, at)
        };
        let sum = |answer: &Answer, of: fn(&Step) -> f64| answer.steps.iter().map(of).sum::<f64>();
        let seconds = |answer: &Answer| sum(answer, |step| step.seconds);
        let most = |of: fn(&Answer) -> Option<u64>| answers.iter().filter_map(of).max();
        Self {
            rate: over(&|it| sum(it, |step| step.samples as f64) / seconds(it)),
            p50_s: over(&|it| quantile_of(it, 0.5)),
            p95_s: over(&|it| quantile_of(it, 0.95)),
            data_share: over(&|it| sum(it, |step| step.data_s) / seconds(it)),
            first_s: over(&|it| it.first_s),
            open_s: over(&|it| it.open_s),
            peak_bytes: most(|it| it.device_peak_bytes.or(it.peak_bytes)),
            device_peak_bytes: most(|it| it.device_peak_bytes),
            device_reserved_bytes: most(|it| it.device_reserved_bytes),
            answers,
        }
    }

    /// The rate beside that of the baseline, repeat by repeat: both repeats were close in time.
    pub(crate) fn ratio(&self, baseline: &Self) -> Spread {
        let rate = |answer: &Answer| Self::of(vec![answer.clone()]).rate.median;
        let pairs = self.answers.iter().zip(&baseline.answers);
        Spread::of(pairs.map(|(own, base)| rate(own) / rate(base)).collect())
    }

    pub(crate) fn json(&self) -> Value {
        let Answer { in_use, .. } = &self.answers[0];
        json!({
            "samples_per_s": self.rate.json(),
            "step_p50_s": self.p50_s.json(),
            "step_p95_s": self.p95_s.json(),
            "data_share": self.data_share.json(),
            "first_step_s": self.first_s.json(),
            "open_s": self.open_s.json(),
            "peak_bytes": self.peak_bytes,
            "device_peak_bytes": self.device_peak_bytes,
            "device_reserved_bytes": self.device_reserved_bytes,
            "in_use": in_use,
            "processes": self.answers.iter().map(|it| it.process).collect::<Vec<_>>(),
            "samples_of_a_step": self.answers[0].steps.first().map(|step| step.samples),
        })
    }
}

/// Whether a row is faster than the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Faster,
    Slower,
    /// The difference is within the spread.
    Same,
    /// One repeat has no spread.
    Unknown,
}

impl Verdict {
    fn of(ratio: Spread, repeats: usize) -> Self {
        if repeats < 2 {
            return Self::Unknown;
        }
        let noise = (0.5 * (ratio.high - ratio.low)).max(LEAST_DIFFERENCE);
        let is_every = repeats >= ENOUGH_REPEATS;
        match ratio.median - 1.0 {
            gain if gain > noise => Self::Faster,
            gain if gain < -noise => Self::Slower,
            _ if is_every && ratio.low > 1.0 + LEAST_DIFFERENCE => Self::Faster,
            _ if is_every && ratio.high < 1.0 - LEAST_DIFFERENCE => Self::Slower,
            _ => Self::Same,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Faster => "+",
            Self::Slower => "-",
            Self::Same | Self::Unknown => " ",
        }
    }
}

/// A row with its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowResult {
    pub(crate) row: Row,
    /// Or why there is none.
    pub(crate) measured: Result<Measured, String>,
    /// The rate divided by that of the baseline.
    pub(crate) ratio: Option<(Spread, Verdict)>,
    /// How far it is from the baseline, or why it cannot be compared; `None` for the baseline.
    pub(crate) difference: Option<Result<Difference, String>>,
}

/// The rows of training or of inference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) work: Work,
    pub(crate) rows: Vec<RowResult>,
    /// Optimizations without an effect, with the reason.
    pub(crate) without_effect: Vec<(&'static str, String)>,
    /// The name of samples in a rate.
    pub(crate) short: &'static str,
    pub(crate) steps: usize,
    pub(crate) repeats: usize,
}

impl Comparison {
    /// Compares the rates with that of the baseline, the first row.
    pub(crate) fn with_ratios(mut self) -> Self {
        let Some(Ok(baseline)) = self.rows.first().map(|row| row.measured.clone()) else {
            return self;
        };
        for row in &mut self.rows {
            let ratio = row.measured.as_ref().ok().map(|own| own.ratio(&baseline));
            row.ratio = ratio.map(|ratio| (ratio, Verdict::of(ratio, self.repeats)));
        }
        self
    }

    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|result| {
            let RowResult { row, measured, ratio, difference } = result;
            let mut value = match measured {
                Ok(measured) => measured.json(),
                Err(reason) => json!({ "failed": reason }),
            };
            value["name"] = json!(row.name);
            value["kind"] = json!(match row.kind {
                Kind::Baseline => "baseline",
                Kind::Alone => "alone",
                Kind::Cumulative => "cumulative",
            });
            value["settings"] = json!(row.setting.sets);
            if let Some((ratio, verdict)) = ratio {
                value["ratio"] = ratio.json();
                value["verdict"] = json!(verdict.name());
            }
            match difference {
                Some(Ok(difference)) => value["parity"] = difference.json(),
                Some(Err(reason)) => value["not_comparable"] = json!(reason),
                None => {}
            }
            value
        });
        let without = self.without_effect.iter();
        let without = without.map(|(name, reason)| json!({ "option": name, "reason": reason }));
        json!({
            "work": self.work.name(),
            "rows": rows.collect::<Vec<_>>(),
            "without_effect": without.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::order::{InUse, Setting};
    use super::*;

    /// A repeat of four steps of ten samples, each with these seconds.
    pub(crate) fn answer(seconds: [f64; 4]) -> Answer {
        let step = |seconds| Step { samples: 10, seconds, data_s: 0.25 * seconds };
        Answer {
            process: 1,
            in_use: InUse {
                device: "flex".to_owned(),
                kernels: true,
                threads: 1,
                precision: "f32".to_owned(),
                batch: 10,
            },
            open_s: 0.5,
            first_s: 2.0,
            steps: seconds.map(step).to_vec(),
            peak_bytes: Some(1 << 20),
            device_peak_bytes: None,
            device_reserved_bytes: None,
        }
    }

    pub(crate) fn comparison(seconds: &[(&str, &[f64])]) -> Comparison {
        let row = |(at, (name, seconds)): (usize, &(&str, &[f64]))| RowResult {
            row: Row {
                name: (*name).to_owned(),
                kind: if at == 0 { Kind::Baseline } else { Kind::Alone },
                setting: Setting::default(),
            },
            measured: Ok(Measured::of(seconds.iter().map(|it| answer([*it; 4])).collect())),
            ratio: None,
            difference: None,
        };
        Comparison {
            work: Work::Training,
            rows: seconds.iter().enumerate().map(row).collect(),
            without_effect: vec![("fusion", "flex does not have it".to_owned())],
            short: "img",
            steps: 4,
            repeats: seconds[0].1.len(),
        }
        .with_ratios()
    }

    #[test]
    fn a_rate_counts_samples_and_quantiles_are_of_steps() {
        let measured = Measured::of(vec![answer([1.0, 2.0, 3.0, 14.0])]);
        assert_eq!(measured.rate.median, 2.0);
        assert_eq!((measured.p50_s.median, measured.first_s.median), (2.5, 2.0));
        assert!((measured.p95_s.median - 12.35).abs() < 1e-9, "{:?}", measured.p95_s);
        assert_eq!((measured.data_share.median, measured.peak_bytes), (0.25, Some(1 << 20)));
    }

    #[test]
    fn a_planted_slow_and_a_planted_fast_row_are_seen_and_noise_is_not() {
        let found = comparison(&[
            ("baseline", &[1.0, 1.1, 1.0]),
            ("same", &[1.05, 1.0, 1.04]),
            ("slow", &[1.25, 1.4, 1.3]),
            ("fast", &[0.8, 0.9, 0.8]),
            ("equal", &[1.0, 1.1, 1.0]),
        ]);
        let verdicts: Vec<_> =
            found.rows.iter().map(|row| row.ratio.expect("measured").1.name()).collect();
        assert_eq!(verdicts, ["same", "same", "slower", "faster", "same"]);
        let json = found.json();
        assert_eq!(json["rows"][2]["verdict"], "slower");
        assert_eq!(json["rows"][4]["ratio"]["median"], 1.0);
        // Wide, but on one side in each of five repeats.
        let wide = [("baseline", &[1.0; 5][..]), ("wide", &[0.9, 0.1, 0.5, 0.3, 0.2])];
        assert_eq!(comparison(&wide).rows[1].ratio.expect("measured").1, Verdict::Faster);
        let once = comparison(&[("baseline", &[1.0]), ("slow", &[2.0])]);
        assert_eq!(once.rows[1].ratio.expect("measured").1, Verdict::Unknown);
    }

    #[test]
    fn ratios_are_of_repeats_that_are_close_in_time() {
        // The machine is half as fast in the second repeat: in both rows alike.
        let found = comparison(&[("baseline", &[1.0, 2.0, 1.0]), ("fast", &[0.8, 1.6, 0.8])]);
        let (ratio, verdict) = found.rows[1].ratio.expect("measured");
        assert!((ratio.high - ratio.low).abs() < 1e-12 && verdict == Verdict::Faster, "{ratio:?}");
    }
}
