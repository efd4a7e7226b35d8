//! A long run of a small network that records memory, descriptors, threads and step times.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use updraft_run::{RunFolder, TaskKind, read_metrics};

use super::child::{start, train};
use super::run_files::only;
use crate::command::cannot;
use crate::report::{Curve, Scale, document, plot};
use crate::stop::requested;
use crate::terminal::say;
use crate::{Failed, print, print_json};

/// Settings of the run: data-loading threads, regular checkpoints, and practically endless epochs.
const SETTINGS: [&str; 4] = [
    "train.epochs=1000000000",
    "train.workers=2",
    "train.checkpoint_every_steps=500",
    "train.ema_decay=0.99",
];

/// Share of the time before measurements count: allocations should be stable after it.
const WARM_UP: f64 = 0.1;

/// Growth of memory that does not count as a leak, because the allocator keeps freed memory.
const SLACK_BYTES: f64 = 16_777_216.0;
const SLACK_SHARE: f64 = 0.05;

/// Memory, descriptors and threads of a process at one point in time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    at_s: f64,
    resident_bytes: f64,
    descriptors: f64,
    threads: f64,
}

/// Trains for `minutes` and prints memory, descriptors, threads and step times.
///
/// # Errors
/// If the memory, the descriptors or the threads grew.
pub(crate) fn soak(
    kind: &dyn TaskKind,
    minutes: f64,
    dir: &Path,
    is_json: bool,
    is_kept: bool,
) -> Result<()> {
    if !Path::new("/proc/self/fd").is_dir() {
        bail!("--minutes needs /proc, from which it reads memory, descriptors and threads")
    }
    let (runs, log, config) = (dir.join("soak"), dir.join("soak.log"), dir.join("soak.toml"));
    fs::write(&config, kind.trial()).map_err(|cause| cannot("write", &config, cause))?;
    let mut arguments = vec![config.into(), "--runs".into(), runs.clone().into()];
    for setting in SETTINGS {
        arguments.extend(["--set".into(), setting.into()]);
    }
    let mut child = start(&mut train::<&str>(&[], &arguments)?, &log)?;
    let begun = Instant::now();
    let mut held = Vec::new();
    // After a signal, the report covers the measurements so far.
    while begun.elapsed().as_secs_f64() < 60.0 * minutes && !requested() {
        if let Some(status) = child.try_wait().context("waiting for the program")? {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(Failed(format!("the run ended early ({status}): {said}")).into());
        }
        held.extend(Held::of(child.id(), begun.elapsed().as_secs_f64()));
        std::thread::sleep(Duration::from_millis(500));
    }
    // The run does not end by itself; a killed run can be resumed.
    child.kill().context("killing the program")?;
    child.wait().context("waiting for the program")?;
    let run = only(&runs).context("the run left no folder: give it more minutes")?;
    let steps = step_times(&run)?;
    let report =
        Report::of(&held, &steps).context("too little was measured: give it more minutes")?;
    if is_json {
        print_json(&report.json())?;
    } else {
        print(&report.text())?;
    }
    if is_kept {
        let page = dir.join("soak.html");
        let written = fs::write(&page, page_of(&held, &steps)?);
        written.map_err(|cause| cannot("write", &page, cause))?;
        say(&format!("plots    {}", page.display()));
    }
    match report.growth() {
        None => Ok(()),
        Some(growth) => Err(Failed(growth).into()),
    }
}

impl Held {
    /// Reads the current values of a process; `None` if it has ended.
    fn of(process: u32, at_s: f64) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        Some(Self {
            at_s,
            resident_bytes: 1024.0 * field("VmRSS:")?,
            descriptors: fs::read_dir(folder.join("fd")).ok()?.count() as f64,
            threads: field("Threads:")?,
        })
    }
}

/// The time of each step in seconds since the start, and its duration in milliseconds.
fn step_times(run: &Path) -> Result<Vec<(f64, f64)>> {
    let lines = read_metrics(&RunFolder::open(run)?)?.lines;
    let steps = lines.iter().filter(|line| line["event"] == "step");
    let time =
        |line: &Value| Some((line["at_us"].as_f64()? * 1e-6, line["step_us"].as_f64()? * 1e-3));
    Ok(steps.filter_map(time).collect())
}

/// The summary of a long run.
struct Report {
    minutes: f64,
    steps: usize,
    /// Bytes, descriptors and threads: median right after the warm-up, median at the end, maximum.
    held: [[f64; 3]; 3],
    /// Step time in milliseconds: 50th, 99th and 99.9th percentile, maximum.
    step_ms: [f64; 4],
}

impl Report {
    fn of(held: &[Held], steps: &[(f64, f64)]) -> Option<Self> {
        let minutes = held.last()?.at_s / 60.0;
        let begin = (held.len() as f64 * WARM_UP) as usize;
        let part = (held.len() / 10).max(1);
        let early = held.get(begin..begin + part)?;
        let late = held.get(held.len() - part..)?;
        let of = |value: fn(&Held) -> f64| {
            let median = |part: &[Held]| percentile(part.iter().map(value).collect(), 0.5);
            let most = held[begin..].iter().map(value).fold(0.0, f64::max);
            [median(early), median(late), most]
        };
        let held = [of(|it| it.resident_bytes), of(|it| it.descriptors), of(|it| it.threads)];
        if steps.is_empty() {
            return None;
        }
        let times = || steps.iter().map(|step| step.1).collect::<Vec<_>>();
        let step_ms = [0.5, 0.99, 0.999, 1.0].map(|share| percentile(times(), share));
        Some(Self { minutes, steps: steps.len(), held, step_ms })
    }

    /// A sentence that names what grew, if anything did.
    fn growth(&self) -> Option<String> {
        let [[early, late, _], ..] = self.held;
        let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
        if late > early * (1.0 + SLACK_SHARE) + SLACK_BYTES {
            return Some(format!("the memory grew from {} to {}", mib(early), mib(late)));
        }
        let counts = [("descriptors", self.held[1]), ("threads", self.held[2])];
        let grown = counts.into_iter().find(|(_, [early, late, _])| late > early);
        grown.map(|(what, [early, late, _])| format!("the {what} grew from {early} to {late}"))
    }

    fn text(&self) -> String {
        let [p50, p99, p999, most] = self.step_ms;
        let mut lines = vec![
            format!("{:.1} minutes, {} steps", self.minutes, self.steps),
            format!("step, ms: median {p50:.2}, 99 % {p99:.2}, 99.9 % {p999:.2}, max {most:.2}"),
            format!("{:<14}{:>12}{:>12}{:>12}", "used", "early", "late", "max"),
        ];
        let names = [("memory, MiB", f64::from(1 << 20)), ("descriptors", 1.0), ("threads", 1.0)];
        for ((name, unit), values) in names.into_iter().zip(self.held) {
            let [early, late, most] = values.map(|value| value / unit);
            lines.push(format!("{name:<14}{early:>12.1}{late:>12.1}{most:>12.1}"));
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let of =
            |[early, late, most]: [f64; 3]| json!({ "early": early, "late": late, "most": most });
        let [p50, p99, p999, most] = self.step_ms;
        json!({
            "minutes": self.minutes, "steps": self.steps,
            "resident_bytes": of(self.held[0]), "descriptors": of(self.held[1]),
            "threads": of(self.held[2]),
            "step_ms": { "p50": p50, "p99": p99, "p99.9": p999, "most": most },
        })
    }
}

/// The percentile of `values` at `share`, from 0 to 1 (nearest rank).
fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// The HTML page with memory, descriptors, threads and step times over time.
fn page_of(held: &[Held], steps: &[(f64, f64)]) -> Result<String> {
    let curve = |name: &str, value: fn(&Held) -> f64| Curve {
        name: name.to_owned(),
        points: thinned(held).map(|it| (it.at_s / 60.0, value(it))).collect(),
    };
    let minute = |share: f64| {
        let mut points = Vec::new();
        for part in steps.chunks((steps.len() / 200).max(1)) {
            let times = part.iter().map(|step| step.1).collect();
            points.push((part[0].0 / 60.0, percentile(times, share)));
        }
        points
    };
    let named = |name: &str, points| Curve { name: name.to_owned(), points };
    let mib = curve("resident", |it| it.resident_bytes / f64::from(1 << 20));
    let counts = [curve("descriptors", |it| it.descriptors), curve("threads", |it| it.threads)];
    let times =
        [named("median", minute(0.5)), named("99 %", minute(0.99)), named("slowest", minute(1.0))];
    let body = [
        plot("Memory, MiB", "minutes", Scale::Linear, &[mib])?,
        plot("Descriptors and threads", "minutes", Scale::Linear, &counts)?,
        plot("Step, ms", "minutes", Scale::Linear, &times)?,
    ];
    Ok(document("soak", &format!("<div class=\"figures\">\n{}</div>\n", body.concat())))
}

/// At most about a thousand evenly spaced measurements.
fn thinned(held: &[Held]) -> impl Iterator<Item = &Held> {
    held.iter().step_by((held.len() / 500).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(count: usize, of: impl Fn(f64) -> [f64; 3]) -> Vec<Held> {
        let at = |index: usize| {
            let at_s = index as f64;
            let [resident_bytes, descriptors, threads] = of(at_s);
            Held { at_s, resident_bytes, descriptors, threads }
        };
        (0..count).map(at).collect()
    }

    #[test]
    fn growing_values_are_named_and_constant_ones_are_not() {
        let steps: Vec<(f64, f64)> = (1..=1000).map(|at| (f64::from(at), f64::from(at))).collect();
        let grown = |of: fn(f64) -> [f64; 3]| {
            Report::of(&held(600, of), &steps).expect("measured").growth()
        };
        assert_eq!(grown(|_| [2e8, 9.0, 4.0]), None);
        assert_eq!(grown(|at| [2e8 + 1e3 * at, 9.0, 4.0]), None);
        let memory = grown(|at| [2e8 + 1e5 * at, 9.0, 4.0]).expect("grown");
        assert!(memory.starts_with("the memory grew from "), "{memory}");
        let files = grown(|at| [2e8, 9.0 + (at / 100.0).floor(), 4.0]).expect("grown");
        assert!(files.starts_with("the descriptors grew from 9"), "{files}");
        assert!(grown(|at| [2e8, 9.0, 4.0 + (at / 300.0).floor()]).is_some());
        let report = Report::of(&held(600, |_| [2e8, 9.0, 4.0]), &steps).expect("measured");
        assert_eq!(report.step_ms, [500.0, 990.0, 999.0, 1000.0]);
        assert!(
            Report::of(&[], &steps).is_none() && Report::of(&held(9, |_| [0.0; 3]), &[]).is_none()
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_holds_memory_files_and_a_thread() {
        let own = Held::of(std::process::id(), 1.0).expect("it runs");
        assert!(
            own.resident_bytes > 1e6 && own.descriptors >= 3.0 && own.threads >= 1.0,
            "{own:?}"
        );
    }
}
