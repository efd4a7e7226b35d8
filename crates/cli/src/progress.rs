//! The progress of a run: a bar on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use updraft_data::Progress;
use updraft_trainer::{EpochReport, Evaluation, Metric, MetricSpec, StepReport, Unit};

use crate::terminal::say;

/// How often a run without a terminal prints its progress within an epoch.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Smoothing of the values within an epoch: about the last twenty steps.
const MEMORY: f64 = 0.95;

/// Displays the progress of a run on standard error.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    epochs: u64,
    /// The name of a sample.
    unit: &'static str,
    is_terminal: bool,
    said: Instant,
    activity: String,
    epoch: Option<EpochView>,
}

struct EpochView {
    epoch: u64,
    started: Instant,
    first_step: u64,
    /// Those of the first step.
    first_samples: usize,
    samples: usize,
    loss: f64,
    /// The first metric after the loss, if it is defined.
    metric: Option<f64>,
}

impl Display {
    /// A display without a run.
    pub(crate) fn new() -> Self {
        Self {
            bar: None,
            epochs: 1,
            unit: "samples",
            is_terminal: stderr().is_terminal(),
            said: Instant::now(),
            activity: String::new(),
            epoch: None,
        }
    }

    /// Sets the number of epochs, and the unit of samples.
    pub(crate) fn expect(&mut self, epochs: u64, unit: &'static str) {
        (self.epochs, self.unit) = (epochs, unit);
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    /// Displays the progress of a long preparation.
    pub(crate) fn preparing(&mut self, activity: &str, progress: Progress) {
        if self.activity != activity {
            self.clear();
            activity.clone_into(&mut self.activity);
            if self.is_terminal {
                self.bar =
                    Some(bar(progress.total, "{msg:28} {bar:28} {percent:>3} %  {eta} left"));
            } else {
                say(activity);
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_message(activity.to_owned());
            bar.set_position(progress.done);
            if progress.done >= progress.total {
                self.clear();
            }
        }
    }

    /// One update was made.
    pub(crate) fn step(&mut self, report: &StepReport) {
        let steps_per_epoch = (report.steps / self.epochs.max(1)).max(1);
        let first_step = report.epoch * steps_per_epoch;
        if self.epoch.as_ref().is_none_or(|view| view.epoch != report.epoch) {
            self.clear();
            if self.is_terminal {
                self.bar = Some(bar(steps_per_epoch, "{prefix} {bar:16} {msg}"));
            }
            self.epoch = Some(EpochView {
                epoch: report.epoch,
                started: Instant::now(),
                first_step: report.step,
                first_samples: report.samples,
                samples: 0,
                loss: report.loss,
                metric: report.metrics.first().and_then(|metric| metric.value),
            });
        }
        let Some(view) = &mut self.epoch else { return };
        view.samples += report.samples;
        let smoothed = |old: f64, new: f64| MEMORY * old + (1.0 - MEMORY) * new;
        view.loss = smoothed(view.loss, report.loss);
        let first = report.metrics.first();
        view.metric = match (view.metric, first.and_then(|metric| metric.value)) {
            (Some(old), Some(new)) => Some(smoothed(old, new)),
            (old, new) => new.or(old),
        };
        let elapsed_s = view.started.elapsed().as_secs_f64().max(1e-6);
        // The clock starts at the end of the first step, whose duration is unknown.
        let made = (report.step - view.first_step) as f64;
        let left = report.steps.saturating_sub(report.step + 1) as f64;
        let mut message = format!("loss {:.3}", view.loss);
        if let (Some(first), Some(value)) = (first, view.metric) {
            let _ =
                write!(message, " {} {}", first.spec.name, metric_text(&first.spec, Some(value)));
        }
        if made > 0.0 {
            let _ = write!(
                message,
                " {:.0} {}/s {} left",
                (view.samples - view.first_samples) as f64 / elapsed_s,
                self.unit,
                clock(elapsed_s / made * left),
            );
        }
        let epoch = format!("epoch {}/{}", report.epoch + 1, self.epochs);
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(epoch);
                bar.set_position(report.step + 1 - first_step);
                bar.set_message(message);
            }
            None if self.said.elapsed() >= LINE_EVERY => {
                let step = report.step + 1 - first_step;
                say(&format!("{epoch} step {step}/{steps_per_epoch} {message}"));
                self.said = Instant::now();
            }
            None => {}
        }
    }

    /// One epoch is over.
    pub(crate) fn epoch(&mut self, report: &EpochReport) {
        self.clear();
        self.line(&epoch_line(report, self.epochs, self.unit));
        self.said = Instant::now();
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The final line of an epoch: for each split the loss and the first defined metrics, as many as
/// fit into eighty columns.
fn epoch_line(report: &EpochReport, epochs: u64, unit: &str) -> String {
    let width = epochs.to_string().len();
    let waited = 100.0 * report.times.data_wait_us as f64 / report.train_us.max(1) as f64;
    // From five per cent on, faster loading may help.
    let waits = if waited < 5.0 { String::new() } else { format!(", {waited:.0} % waiting") };
    let line = |most: usize| {
        let train = usize::from(most > 0 && is_share(&report.train));
        let train = split_text("train", &report.train, train);
        let test = report.test.as_ref();
        let test =
            test.map_or_else(String::new, |test| format!(" | {}", split_text("test", test, most)));
        let (epoch, rate) = (report.epoch + 1, report.samples_per_s);
        format!("epoch {epoch:>width$}/{epochs} | {train}{test} | {rate:.0} {unit}/s{waits}")
    };
    let mut lines = [2, 1, 0].map(line).into_iter();
    let fits = lines.find(|line| line.chars().count() <= 80);
    fits.unwrap_or_else(|| line(0))
}

/// The loss of a split and its first defined metrics, at most `most`; parts of the loss come last.
fn split_text(name: &str, evaluation: &Evaluation, most: usize) -> String {
    let defined = evaluation.metrics.iter().skip(1).filter(|metric| metric.value.is_some());
    let is_part = |metric: &&Metric| metric.spec.name.starts_with("loss-");
    let parts = defined.clone().filter(is_part);
    let metrics =
        defined.filter(|metric| !is_part(metric)).chain(parts).take(most).map(
            |metric| match &metric.spec.unit {
                Unit::Share => format!(" {}", metric_text(&metric.spec, metric.value)),
                _ => format!(" {} {}", metric.spec.name, metric_text(&metric.spec, metric.value)),
            },
        );
    format!("{name} {:.3}{}", evaluation.loss(), metrics.collect::<String>())
}

/// Whether the first metric after the loss is a fraction, which is short enough to be shown twice.
fn is_share(evaluation: &Evaluation) -> bool {
    evaluation.metrics.get(1).is_some_and(|metric| metric.spec.unit == Unit::Share)
}

/// All metrics of an evaluation that are defined, those of the task before the loss.
pub(crate) fn evaluation_text(evaluation: &Evaluation) -> String {
    let (loss, others) = evaluation.metrics.split_at(1);
    let defined = others.iter().chain(loss).filter(|metric| metric.value.is_some());
    let texts = defined.map(|metric| {
        let text = match &metric.spec.unit {
            Unit::Share => format!("{:.2} %", 100.0 * metric.value.unwrap_or(f64::NAN)),
            _ => metric_text(&metric.spec, metric.value),
        };
        let unit = match &metric.spec.unit {
            Unit::Of(unit) => format!(" ({unit})"),
            _ => String::new(),
        };
        format!("{} {text}{unit}", metric.spec.name)
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The value of a metric: fractions in per cent with one decimal, others with three or four digits.
pub(crate) fn metric_text(spec: &MetricSpec, value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(share) if spec.unit == Unit::Share => format!("{:.1} %", 100.0 * share),
        Some(value) if value != 0.0 && !(1e-3..1e5).contains(&value.abs()) => {
            format!("{value:.3e}")
        }
        Some(value) => format!("{value:.4}"),
    }
}

/// Seconds up to two minutes, then minutes.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(length).with_style(style.progress_chars("━╸─"))
}

/// Minutes and seconds, or hours and minutes.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use updraft_trainer::{Direction, Metric, StepTimes};

    use super::*;

    fn evaluation(loss: f64, others: &[(&'static str, Unit, f64)]) -> Evaluation {
        let metric = |name: &'static str, unit, value| {
            let spec = MetricSpec::new(name, unit, Direction::LowerIsBetter);
            Metric { spec, value: Some(value) }
        };
        let others = others.iter().map(|(name, unit, value)| metric(name, unit.clone(), *value));
        let metrics = [metric("loss", Unit::None, loss)].into_iter().chain(others).collect();
        Evaluation { metrics, samples: 10_000 }
    }

    #[test]
    fn an_epoch_line_fits_eighty_columns() {
        let report = EpochReport {
            epoch: 99,
            step: 40_000,
            train: evaluation(12.3456, &[("accuracy", Unit::Share, 0.876)]),
            test: Some(evaluation(12.3456, &[("accuracy", Unit::Share, 1.0)])),
            samples_per_s: 12_345.6,
            left_out: 0,
            train_us: 1000,
            times: StepTimes { data_wait_us: 10, ..StepTimes::default() },
            ranks: Vec::new(),
        };
        let line = epoch_line(&report, 100, "img");
        assert_eq!(line, "epoch 100/100 | train 12.346 87.6 % | test 12.346 100.0 % | 12346 img/s");
        let times = StepTimes { data_wait_us: 99, ..StepTimes::default() };
        let waiting = epoch_line(&EpochReport { times, ..report.clone() }, 10, "img");
        assert!(waiting.ends_with("img/s, 10 % waiting"), "{waiting}");
        let numbers = [("rmse", Unit::Of("y".into()), 0.7125), ("r-squared", Unit::None, 0.5)];
        let (train, test) = (evaluation(0.5, &numbers), Some(evaluation(0.5, &numbers)));
        let report = EpochReport { train, test, ..report };
        let short = epoch_line(&EpochReport { epoch: 0, ..report.clone() }, 1, "rows");
        let expected =
            "epoch 1/1 | train 0.500 | test 0.500 rmse 0.7125 r-squared 0.5000 | 12346 rows/s";
        assert_eq!((short.as_str(), short.len()), (expected, 80));
        let line = epoch_line(&report, 100, "rows");
        assert_eq!(line, "epoch 100/100 | train 0.500 | test 0.500 rmse 0.7125 | 12346 rows/s");
        let parts = [("loss-penalty", Unit::None, 0.25), ("psnr", Unit::None, 30.5)];
        let test = evaluation(0.5, &parts);
        assert_eq!(split_text("test", &test, 1), "test 0.500 psnr 30.5000");
        assert_eq!(split_text("test", &test, 2), "test 0.500 psnr 30.5000 loss-penalty 0.2500");
    }

    #[test]
    fn an_evaluation_names_its_metrics_with_their_units() {
        let classes = evaluation(0.25, &[("accuracy", Unit::Share, 0.9375)]);
        assert_eq!(evaluation_text(&classes), "accuracy 93.75 %, loss 0.2500");
        let numbers = evaluation(1e-6, &[("rmse", Unit::Of("quality".into()), 0.65)]);
        assert_eq!(evaluation_text(&numbers), "rmse 0.6500 (quality), loss 1.000e-6");
    }

    #[test]
    fn the_time_left_reads_as_a_clock() {
        assert_eq!(clock(61.4), "1:01");
        assert_eq!(clock(3600.0 * 2.5), "2h30");
    }
}
