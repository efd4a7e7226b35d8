//! What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use updraft_data::Progress;
use updraft_trainer::{EpochReport, StepReport};

/// How often a run without a terminal says where it stands within an epoch.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Smoothing of the loss shown within an epoch: about the last twenty steps.
const LOSS_MEMORY: f64 = 0.95;

/// Shows where a run stands, on standard error.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    epochs: u64,
    /// What a sample is called.
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
    /// None where there is nothing to be right about.
    correct: Option<usize>,
    loss: f64,
}

impl Display {
    /// A display for a run of so many epochs.
    pub(crate) fn new(epochs: u64) -> Self {
        Self {
            bar: None,
            epochs,
            unit: "img",
            is_terminal: stderr().is_terminal(),
            said: Instant::now(),
            activity: String::new(),
            epoch: None,
        }
    }

    /// The same for samples that are rows of a table.
    pub(crate) fn of_rows(epochs: u64) -> Self {
        Self { unit: "rows", ..Self::new(epochs) }
    }

    /// Sets of how many epochs the run is.
    pub(crate) fn expect_epochs(&mut self, epochs: u64) {
        self.epochs = epochs;
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    /// How far a long preparation is.
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
                correct: report.correct.map(|_| 0),
                loss: report.loss,
            });
        }
        let Some(view) = &mut self.epoch else { return };
        view.samples += report.samples;
        if let (Some(sum), Some(correct)) = (&mut view.correct, report.correct) {
            *sum += correct;
        }
        view.loss = LOSS_MEMORY * view.loss + (1.0 - LOSS_MEMORY) * report.loss;
        let elapsed_s = view.started.elapsed().as_secs_f64().max(1e-6);
        // The clock starts at the end of the first step, which it does not know the time of.
        let made = (report.step - view.first_step) as f64;
        let left = report.steps.saturating_sub(report.step + 1) as f64;
        let mut message = format!("loss {:.3}", view.loss);
        if let Some(correct) = view.correct {
            let share = correct as f64 / view.samples.max(1) as f64;
            let _ = write!(message, " acc {:4.1} %", 100.0 * share);
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

    /// Takes the bar off the screen.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The line that stays after an epoch.
fn epoch_line(report: &EpochReport, epochs: u64, unit: &str) -> String {
    let width = epochs.to_string().len();
    let test = report.test.map_or_else(String::new, |test| {
        let r_squared = test.r_squared.map_or_else(String::new, |r2| format!(" R² {r2:.3}"));
        format!(" | test {:.3}{}{r_squared}", test.loss, percent(test.accuracy))
    });
    let waited = 100.0 * report.times.data_wait_us as f64 / report.train_us.max(1) as f64;
    // Five per cent is where faster loading starts to be worth a look.
    let waits = if waited < 5.0 { String::new() } else { format!(", {waited:.0} % waiting") };
    format!(
        "epoch {:>width$}/{epochs} | train {:.3}{}{test} | {:.0} {unit}/s{waits}",
        report.epoch + 1,
        report.train_loss,
        percent(report.train_accuracy),
        report.samples_per_s,
    )
}

/// A share with a space before it; nothing where there is none.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!(" {:.1} %", 100.0 * share))
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

/// Says a line on standard error.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use updraft_trainer::{Evaluation, StepTimes};

    use super::*;

    #[test]
    fn an_epoch_line_fits_eighty_columns() {
        let report = EpochReport {
            epoch: 99,
            step: 40_000,
            train_loss: 12.3456,
            train_accuracy: Some(0.876),
            test: Some(Evaluation {
                loss: 12.3456,
                accuracy: Some(1.0),
                r_squared: None,
                samples: 10_000,
            }),
            samples_per_s: 12_345.6,
            left_out: 0,
            train_us: 1000,
            times: StepTimes { data_wait_us: 10, ..StepTimes::default() },
        };
        let line = epoch_line(&report, 100, "img");
        assert_eq!(line, "epoch 100/100 | train 12.346 87.6 % | test 12.346 100.0 % | 12346 img/s");
        let times = StepTimes { data_wait_us: 99, ..StepTimes::default() };
        let waiting = epoch_line(&EpochReport { times, ..report.clone() }, 10, "img");
        assert!(waiting.ends_with("img/s, 10 % waiting"), "{waiting}");
        let test = Evaluation { loss: 0.5, accuracy: None, r_squared: Some(0.5), samples: 9 };
        let rows = EpochReport { train_accuracy: None, test: Some(test), ..report };
        let line = epoch_line(&rows, 100, "rows");
        assert_eq!(line, "epoch 100/100 | train 12.346 | test 0.500 R² 0.500 | 12346 rows/s");
    }

    #[test]
    fn the_time_left_reads_as_a_clock() {
        assert_eq!(clock(61.4), "1:01");
        assert_eq!(clock(3600.0 * 2.5), "2h30");
    }
}
