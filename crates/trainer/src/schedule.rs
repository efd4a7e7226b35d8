//! The learning rate as a function of the step.

use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// A learning-rate schedule.
///
/// Every schedule returns a factor in `[0, 1]` of the peak learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// The peak learning rate at every step.
    Constant,
    /// Linear warm-up to the peak, then half a cosine down to a floor.
    WarmupCosine {
        /// The fraction of all steps spent warming up, in `[0, 1)`.
        #[serde(default = "default_warmup")]
        warmup: f64,
        /// The last factor, in `[0, 1]`.
        #[serde(default)]
        floor: f64,
    },
    /// Half cosines from the peak to a floor, restarted several times (SGDR).
    CosineRestarts {
        /// How many half cosines, at least 1.
        cycles: u32,
        /// Each cycle's length as a multiple of the one before, at least 1.
        #[serde(default = "default_growth")]
        growth: f64,
        /// The last factor of each cycle, in `[0, 1]`.
        #[serde(default)]
        floor: f64,
    },
    /// Half a cosine up from a low start, then half a cosine down to a lower floor.
    OneCycle {
        /// Share of all steps on the way up, in `[0, 1)`.
        #[serde(default = "default_rise")]
        warmup: f64,
        /// The first factor, in `[0, 1]`.
        #[serde(default = "default_start")]
        start: f64,
        /// The last factor, in `[0, 1]`.
        #[serde(default = "default_last")]
        floor: f64,
    },
    /// A straight line up from a low start, then a straight line down to a floor.
    Triangular {
        /// Share of all steps on the way up, in `[0, 1)`.
        #[serde(default = "default_rise")]
        warmup: f64,
        /// The first factor, in `[0, 1]`.
        #[serde(default)]
        start: f64,
        /// The last factor, in `[0, 1]`.
        #[serde(default)]
        floor: f64,
    },
    /// The peak, multiplied by a factor at regular intervals.
    Step {
        /// Steps between two reductions, at least 1.
        every_steps: u64,
        /// The factor of each reduction, above 0 and at most 1.
        #[serde(default = "default_drop")]
        factor: f64,
    },
    /// A straight line on a logarithmic scale, from the peak to the last factor.
    Exponential {
        /// The factor after all steps, above 0 and at most 1.
        last: f64,
    },
}

/// A fifth of a short run, the fraction that one-cycle training of small nets uses (Smith and Topin
/// 2017, arXiv:1708.07120, take up to 45 %).
fn default_warmup() -> f64 {
    0.2
}

/// Doubling, as the paper's best runs (arXiv:1608.03983, section 4.1).
fn default_growth() -> f64 {
    2.0
}

/// `PyTorch`'s `OneCycleLR` with its defaults: 30 % up from 1/25, and down to 1/25 of 10⁻⁴.
fn default_rise() -> f64 {
    0.3
}

fn default_start() -> f64 {
    1.0 / 25.0
}

fn default_last() -> f64 {
    1e-4 / 25.0
}

/// A tenth, the usual drop of residual networks (arXiv:1512.03385, section 3.4).
fn default_drop() -> f64 {
    0.1
}

impl Schedule {
    /// Checks the ranges of the schedule's numbers.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let check = |is_good: bool, name, value: f64, expected| {
            if is_good {
                return Ok(());
            }
            Err(TrainError::setting(name, value, expected))
        };
        let share = |name, value| {
            let expected = "a share of all steps, at least 0 and below 1";
            check((0.0..1.0).contains(&value), name, value, expected)
        };
        let factor = |name, value| {
            check((0.0..=1.0).contains(&value), name, value, "a factor between 0 and 1")
        };
        let positive = |name, value| {
            check(value > 0.0 && value <= 1.0, name, value, "a factor above 0 and at most 1")
        };
        match *self {
            Self::Constant => Ok(()),
            Self::WarmupCosine { warmup, floor } => {
                share("schedule.warmup", warmup)?;
                factor("schedule.floor", floor)
            }
            Self::CosineRestarts { cycles, growth, floor } => {
                let expected = "1 to 1000 cycles";
                check((1..=1000).contains(&cycles), "schedule.cycles", cycles.into(), expected)?;
                let is_good = (1.0..=10.0).contains(&growth);
                check(is_good, "schedule.growth", growth, "a multiple from 1 to 10")?;
                factor("schedule.floor", floor)
            }
            Self::OneCycle { warmup, start, floor } | Self::Triangular { warmup, start, floor } => {
                share("schedule.warmup", warmup)?;
                factor("schedule.start", start)?;
                factor("schedule.floor", floor)
            }
            Self::Step { every_steps, factor } => {
                check(every_steps > 0, "schedule.every_steps", 0.0, "at least 1")?;
                positive("schedule.factor", factor)
            }
            Self::Exponential { last } => positive("schedule.last", last),
        }
    }

    /// The factor of the peak learning rate at `step` of `steps`.
    ///
    /// With `T` all steps, `t` this one, `f` the floor, `c(x) = (1 + cos(π·x))/2`:
    ///
    /// | Schedule | Factor |
    /// |---|---|
    /// | constant | 1 |
    /// | warm-up and cosine, `w = round(warmup·T)` | `(t + 1)/w` while `t < w`, then `f + (1 − f)·c((t − w)/(T − w))` |
    /// | cosine restarts, cycle `i` of length `L·growthⁱ`, all together `T` | `f + (1 − f)·c(share of the cycle that is over)` |
    /// | one cycle, `w = round(warmup·T)` | `1 − (1 − start)·c(t/w)` while `t < w`, then `f + (1 − f)·c((t − w)/(T − w))` |
    /// | triangular, `w = round(warmup·T)` | `start + (1 − start)·t/w` while `t < w`, then `1 − (1 − f)·(t − w)/(T − w)` |
    /// | step | `factor^⌊t/every_steps⌋` |
    /// | exponential | `last^(t/T)` |
    ///
    /// All are functions of the step alone, so a resumed run needs only its step.
    ///
    /// # Source
    /// Loshchilov and Hutter 2016, arXiv:1608.03983, equation 5, for the cosine with and without
    /// restarts; Smith and Topin 2017, arXiv:1708.07120, for the one cycle; Smith 2015,
    /// arXiv:1506.01186, for the triangle.
    #[must_use]
    pub fn factor(&self, step: u64, steps: u64) -> f64 {
        let (step, steps) = (step as f64, steps.max(1) as f64);
        match *self {
            Self::Constant => 1.0,
            Self::WarmupCosine { warmup, floor } => {
                let warm = (warmup * steps).round();
                if step < warm { (step + 1.0) / warm } else { descent(step, warm, steps, floor) }
            }
            Self::CosineRestarts { cycles, growth, floor } => {
                let mut length = steps / (0..cycles).map(|i| growth.powi(i as i32)).sum::<f64>();
                let mut begin = 0.0;
                for _ in 1..cycles {
                    if step < begin + length {
                        break;
                    }
                    begin += length;
                    length *= growth;
                }
                floor + (1.0 - floor) * half_cosine((step - begin) / length)
            }
            Self::OneCycle { warmup, start, floor } => {
                let warm = (warmup * steps).round();
                if step < warm {
                    1.0 - (1.0 - start) * half_cosine(step / warm)
                } else {
                    descent(step, warm, steps, floor)
                }
            }
            Self::Triangular { warmup, start, floor } => {
                let warm = (warmup * steps).round();
                if step < warm {
                    start + (1.0 - start) * step / warm
                } else {
                    let done = (step - warm) / (steps - warm).max(1.0);
                    1.0 - (1.0 - floor) * done.min(1.0)
                }
            }
            Self::Step { every_steps, factor } => factor.powf((step / every_steps as f64).floor()),
            Self::Exponential { last } => last.powf((step / steps).min(1.0)),
        }
    }
}

/// Half a cosine from 1 at `begin` to `floor` at `end`.
fn descent(step: f64, begin: f64, end: f64, floor: f64) -> f64 {
    floor + (1.0 - floor) * half_cosine((step - begin) / (end - begin).max(1.0))
}

/// From 1 to 0 while `done` goes from 0 to 1, and 0 after that.
fn half_cosine(done: f64) -> f64 {
    0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_then_cosine_follows_the_formula() {
        let schedule = Schedule::WarmupCosine { warmup: 0.2, floor: 0.1 };
        let half = 0.1 + 0.9 * 0.5;
        for (step, expected) in [(0, 0.5), (1, 1.0), (2, 1.0), (6, half), (10, 0.1), (99, 0.1)] {
            let factor = schedule.factor(step, 10);
            assert!((factor - expected).abs() < 1e-12, "step {step}: {factor}, not {expected}");
        }
    }

    /// A schedule, all steps, and the factors at some of them.
    type Table<'a> = (Schedule, u64, &'a [(u64, f64)]);

    /// Tables written out from the formulae, by hand where the cosine is at a known angle.
    #[test]
    fn every_schedule_follows_its_table() {
        let root = std::f64::consts::FRAC_1_SQRT_2;
        let tables: [Table<'_>; 7] = [
            (Schedule::Constant, 10, &[(0, 1.0), (9, 1.0)]),
            (
                Schedule::CosineRestarts { cycles: 2, growth: 1.0, floor: 0.0 },
                8,
                &[
                    (0, 1.0),
                    (1, 0.5 + 0.5 * root),
                    (2, 0.5),
                    (3, 0.5 - 0.5 * root),
                    (4, 1.0),
                    (6, 0.5),
                ],
            ),
            (
                // Lengths 4, 8 and 16.
                Schedule::CosineRestarts { cycles: 3, growth: 2.0, floor: 0.2 },
                28,
                &[(0, 1.0), (2, 0.6), (4, 1.0), (8, 0.6), (12, 1.0), (20, 0.6), (28, 0.2)],
            ),
            (
                Schedule::OneCycle { warmup: 0.4, start: 0.2, floor: 0.0 },
                10,
                &[
                    (0, 0.2),
                    (1, 0.2 + 0.8 * (0.5 - 0.5 * root)),
                    (2, 0.6),
                    (4, 1.0),
                    (7, 0.5),
                    (10, 0.0),
                ],
            ),
            (
                Schedule::Triangular { warmup: 0.4, start: 0.2, floor: 0.1 },
                10,
                &[(0, 0.2), (1, 0.4), (3, 0.8), (4, 1.0), (5, 0.85), (10, 0.1), (99, 0.1)],
            ),
            (
                Schedule::Step { every_steps: 3, factor: 0.5 },
                9,
                &[(0, 1.0), (2, 1.0), (3, 0.5), (5, 0.5), (6, 0.25), (9, 0.125)],
            ),
            (
                Schedule::Exponential { last: 0.01 },
                10,
                &[(0, 1.0), (5, 0.1), (10, 0.01), (99, 0.01)],
            ),
        ];
        for (schedule, steps, table) in tables {
            schedule.validate().expect("in range");
            for (step, expected) in table {
                let factor = schedule.factor(*step, steps);
                let gap = (factor - expected).abs();
                assert!(gap < 1e-12, "{schedule:?}, step {step}: {factor}, not {expected}");
            }
        }
    }

    #[test]
    fn the_factor_never_leaves_its_range() {
        let schedules = [
            Schedule::WarmupCosine { warmup: 0.0, floor: 0.0 },
            Schedule::WarmupCosine { warmup: 0.5, floor: 0.0 },
            Schedule::WarmupCosine { warmup: 0.99, floor: 1.0 },
            Schedule::CosineRestarts { cycles: 5, growth: 2.0, floor: 0.0 },
            Schedule::OneCycle { warmup: 0.3, start: 0.04, floor: 0.0 },
            Schedule::Triangular { warmup: 0.0, start: 0.2, floor: 0.0 },
            Schedule::Triangular { warmup: 0.99, start: 0.0, floor: 0.1 },
            Schedule::Step { every_steps: 2, factor: 0.1 },
            Schedule::Exponential { last: 1e-3 },
        ];
        for schedule in schedules {
            for steps in [0, 1, 2, 7, 100] {
                for step in 0..steps + 2 {
                    let factor = schedule.factor(step, steps);
                    assert!((0.0..=1.0).contains(&factor), "{schedule:?} {step}/{steps}: {factor}");
                }
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let cases = [
            (Schedule::WarmupCosine { warmup: 1.0, floor: 0.0 }, "`schedule.warmup` is 1"),
            (Schedule::CosineRestarts { cycles: 0, growth: 1.0, floor: 0.0 }, "`schedule.cycles`"),
            (Schedule::CosineRestarts { cycles: 2, growth: 0.5, floor: 0.0 }, "`schedule.growth`"),
            (Schedule::OneCycle { warmup: 0.3, start: 2.0, floor: 0.0 }, "`schedule.start` is 2"),
            (Schedule::Triangular { warmup: 0.3, start: 0.0, floor: -1.0 }, "`schedule.floor`"),
            (Schedule::Step { every_steps: 0, factor: 0.5 }, "`schedule.every_steps` is 0"),
            (Schedule::Step { every_steps: 1, factor: 0.0 }, "`schedule.factor` is 0"),
            (Schedule::Step { every_steps: 1, factor: 1.5 }, "`schedule.factor` is 1.5"),
            (Schedule::Exponential { last: f64::NAN }, "`schedule.last` is NaN"),
            (Schedule::Exponential { last: 0.0 }, "`schedule.last` is 0"),
            (Schedule::WarmupCosine { warmup: 0.1, floor: 1.5 }, "`schedule.floor` is 1.5"),
            (
                Schedule::CosineRestarts { cycles: 1001, growth: 1.0, floor: 0.0 },
                "`schedule.cycles` is 1001",
            ),
            (
                Schedule::CosineRestarts { cycles: 1, growth: 10.5, floor: 0.0 },
                "`schedule.growth` is 10.5",
            ),
            (
                Schedule::CosineRestarts { cycles: 1, growth: 1.0, floor: -0.5 },
                "`schedule.floor` is -0.5",
            ),
            (Schedule::OneCycle { warmup: -0.5, start: 0.0, floor: 0.0 }, "`schedule.warmup`"),
        ];
        for (schedule, message) in cases {
            let error = schedule.validate().expect_err("out of range").to_string();
            assert!(error.starts_with(message), "{error}");
        }
        for allowed in [
            Schedule::WarmupCosine { warmup: 0.0, floor: 1.0 },
            Schedule::CosineRestarts { cycles: 1000, growth: 10.0, floor: 1.0 },
            Schedule::OneCycle { warmup: 0.0, start: 1.0, floor: 1.0 },
            Schedule::Step { every_steps: 1, factor: 1.0 },
            Schedule::Exponential { last: 1.0 },
        ] {
            assert!(allowed.validate().is_ok(), "{allowed:?}");
        }
    }

    #[test]
    fn numbers_that_are_left_out_are_those_of_the_papers() {
        for (text, expected) in [
            (r#"{"kind":"warmup-cosine"}"#, Schedule::WarmupCosine { warmup: 0.2, floor: 0.0 }),
            (
                r#"{"kind":"cosine-restarts","cycles":3}"#,
                Schedule::CosineRestarts { cycles: 3, growth: 2.0, floor: 0.0 },
            ),
            (
                r#"{"kind":"one-cycle"}"#,
                Schedule::OneCycle { warmup: 0.3, start: 0.04, floor: 4e-6 },
            ),
            (r#"{"kind":"step","every_steps":9}"#, Schedule::Step { every_steps: 9, factor: 0.1 }),
        ] {
            let read: Schedule = serde_json::from_str(text).expect("numbers have defaults");
            assert_eq!(read, expected);
        }
    }
}
