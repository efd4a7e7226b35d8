//! `batch-sweep`: throughput, latency and memory by batch size.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use updraft_run::{About, Plan, Registry};

use super::would::{Would, config_of, data_of};
use super::{ConfigArgs, device_of, open};
use crate::json::JsonArgs;
use crate::performance::{
    Folder, Kind, MOST_STEPS, Measured, MemoryLimit, OUT_OF_MEMORY, Row, Series, Setting, Work,
    number, share,
};
use crate::progress::Display;
use crate::wrap::{counted, hanging};

const EXAMPLES: &str = "\
Examples:
  batch-sweep CONFIG                       batches of 1, 2, 4, ..., 256
  batch-sweep CONFIG --sizes 8,16,24,32
  batch-sweep CONFIG --memory-limit 2000   end at 2000 MiB
";

/// A smaller batch is recommended if its rate is this close to the largest.
const CLOSE: f64 = 0.02;

/// Measures throughput, latency and memory by batch size.
///
/// Each size is measured in a separate process, in training and in inference. The sweep ends at the
/// first size that exceeds the memory limit.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BatchSweepArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The batch sizes, increasing [default: 1, 2, 4, ..., 256, as far as config and data allow]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Memory limit in MiB, of the process or of the GPU [default: the available memory]
    #[arg(long, value_name = "MIB")]
    memory_limit: Option<u64>,
    /// Measure only training or only inference
    #[arg(long, value_name = "WORK", value_parser = ["training", "inference"])]
    only: Option<String>,
    /// Timed steps of each repeat
    #[arg(long, value_name = "N", default_value_t = 20)]
    steps: usize,
    /// Repeats of each size
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    #[command(flatten)]
    json: JsonArgs,
}

impl BatchSweepArgs {
    fn check(&self) -> Result<()> {
        for (option, value) in [("--steps", self.steps), ("--repeats", self.repeats)] {
            ensure!(
                (1..=MOST_STEPS).contains(&value),
                "{option} is {value}; it must be 1 to {MOST_STEPS}"
            );
        }
        ensure!(self.memory_limit != Some(0), "--memory-limit is 0; it must be at least 1");
        if let Some(0) = self.sizes.first() {
            bail!("--sizes begins with 0; a batch has at least 1 sample")
        }
        match self.sizes.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => {
                bail!("--sizes has {} before {}; sizes must increase", pair[0], pair[1])
            }
            None => Ok(()),
        }
    }

    /// The plan of each size. Sizes of the default that the config refuses are left out.
    fn plans(&self, registry: Registry, samples: Option<usize>) -> Result<Vec<(Row, Plan)>> {
        let default: Vec<usize> = (0..=8).map(|power| 1 << power).collect();
        let is_default = self.sizes.is_empty();
        let sizes = if is_default { &default } else { &self.sizes };
        let mut rows = Vec::new();
        for &size in sizes {
            let is_too_many = samples.is_some_and(|samples| size > samples);
            if is_too_many && !is_default {
                let samples = samples.unwrap_or_default();
                bail!("--sizes has {size}; it must be at most {samples}, the training samples")
            }
            let setting =
                Setting { sets: vec![format!("train.batch={size}")], ..Setting::default() };
            let mut config = self.config.clone();
            config.sets.extend(setting.sets.iter().cloned());
            match config.plan_in_silence(registry) {
                _ if is_too_many => {}
                Ok(planned) => {
                    let row = Row { name: format!("batch {size}"), kind: Kind::Alone, setting };
                    rows.push((row, planned.plan));
                }
                Err(_) if is_default => {}
                Err(error) => return Err(error).with_context(|| format!("--sizes {size}")),
            }
        }
        Ok(rows)
    }
}

/// Prints what would be read and written, and the sizes.
pub(crate) fn dry_run(registry: Registry, args: &BatchSweepArgs) -> Result<()> {
    args.check()?;
    let plan = args.config.plan(registry)?.plan;
    device_of(&plan)?;
    let rows = args.plans(registry, None)?;
    let data = data_of(&plan, args.config.data.as_deref());
    let reads = format!("{} and {data}", config_of(&args.config));
    Would::new(reads, "nothing; the measurements are printed").print()?;
    plan.find_inputs(args.config.data.as_deref())?;
    for (row, _) in &rows {
        crate::print(&format!("# {}", row.name))?;
    }
    Ok(())
}

/// A size with what was measured, or why it was not.
struct Size {
    batch: usize,
    found: Result<Measured, String>,
}

/// Measures the sizes and prints tables with the best sizes.
pub(crate) fn run(registry: Registry, args: &BatchSweepArgs) -> Result<()> {
    args.check()?;
    let plan = args.config.plan(registry)?.plan;
    let (_, selection) = device_of(&plan)?;
    let mut display = Display::new();
    let about = open(&plan, args.config.data.as_deref(), None, &mut display)?.about();
    let rows = args.plans(registry, Some(about.train_samples))?;
    let limit = MemoryLimit::of(&selection, args.memory_limit, "--memory-limit")?;
    let folder = Folder::create()?;
    let mut all = Vec::new();
    for work in Work::ALL {
        if args.only.as_ref().is_some_and(|only| only != work.name()) {
            continue;
        }
        let series = Series {
            folder: &folder,
            display: &display,
            work,
            steps: args.steps,
            repeats: args.repeats,
            short: about.short,
            limit,
        };
        all.push((work, sweep(&series, &rows, &about)?));
    }
    display.clear();
    drop(folder);
    crate::print(&hanging("", &format!("{} on {}: {}", plan.name, selection.id, about.model)))?;
    for (work, sizes) in &all {
        crate::print("")?;
        let title = format!(
            "{}: {}, {}; medians",
            work.name(),
            counted(args.steps as u64, "step"),
            counted(args.repeats as u64, "repeat")
        );
        crate::print(&title)?;
        table(sizes, about.short).iter().try_for_each(|line| crate::print(line))?;
    }
    let works = all.iter().map(|(work, sizes)| work_json(*work, sizes));
    args.json.print(&json!({
        "version": 1,
        "name": plan.name,
        "device": selection.id.to_string(),
        "limit_bytes": limit.map(|limit| limit.bytes),
        "works": works.collect::<Vec<_>>(),
    }))?;
    let best = all.iter().find(|(work, _)| *work == Work::Training);
    if let Some((_, sizes)) = best
        && let Some(best) = Best::of(sizes)
    {
        let (config, batch) = (args.config.words(), best.throughput);
        crate::program::next(&format!("train{config} --set train.batch={batch}"));
    }
    Ok(())
}

/// Measures sizes in their order until one is out of memory, then repeats the others in turn.
fn sweep(series: &Series<'_>, rows: &[(Row, Plan)], about: &About) -> Result<Vec<Size>> {
    let mut sizes: Vec<(usize, Result<Vec<_>, String>)> = Vec::new();
    for (row, plan) in rows {
        let batch = plan.train.batch;
        if series.work == Work::Inference && batch > about.test_samples {
            let reason = format!("there are only {} test samples", about.test_samples);
            sizes.push((batch, Err(reason)));
            break;
        }
        let found = series.once(row, plan, 0, None)?.map(|answer| vec![answer]);
        let is_over = found.as_ref().is_err_and(|reason| reason == OUT_OF_MEMORY);
        if is_over && sizes.is_empty() {
            let mib = series.limit.map_or(0, |limit| limit.bytes) >> 20;
            bail!(
                "a batch of {batch} takes more than {mib} MiB, the memory limit; begin with a \
                 smaller one, or raise --memory-limit"
            )
        }
        sizes.push((batch, found));
        if is_over {
            break;
        }
    }
    for repeat in 1..series.repeats {
        for ((row, plan), (_, found)) in rows.iter().zip(&mut sizes) {
            let Ok(answers) = found else { continue };
            match series.once(row, plan, repeat, None)? {
                Ok(answer) => answers.push(answer),
                Err(reason) => *found = Err(reason),
            }
        }
    }
    let size =
        |(batch, found): (usize, Result<Vec<_>, _>)| Size { batch, found: found.map(Measured::of) };
    Ok(sizes.into_iter().map(size).collect())
}

/// The best sizes.
#[derive(Debug, PartialEq)]
struct Best {
    /// The smallest batch whose rate is close to the largest.
    throughput: usize,
    /// The batch with the shortest step.
    latency: usize,
    /// The batch with the least memory a sample.
    memory: Option<usize>,
}

impl Best {
    /// `None` if no size was measured.
    fn of(sizes: &[Size]) -> Option<Self> {
        let measured = || sizes.iter().filter_map(|it| Some((it.batch, it.found.as_ref().ok()?)));
        let most = measured().map(|(_, it)| it.rate.median).reduce(f64::max)?;
        let (throughput, _) = measured().find(|(_, it)| it.rate.median >= (1.0 - CLOSE) * most)?;
        let (latency, _) =
            measured().min_by(|(_, a), (_, b)| a.p50_s.median.total_cmp(&b.p50_s.median))?;
        let memory = measured()
            .filter_map(|(batch, it)| Some((batch, it.peak_bytes? as f64 / batch as f64)))
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        Some(Self { throughput, latency, memory: memory.map(|(batch, _)| batch) })
    }
}

fn table(sizes: &[Size], short: &str) -> Vec<String> {
    let mut lines = vec![format!(
        "{:>8}{:>11}{:>8}{:>10}{:>10}{:>10}{:>9}{:>12}",
        "batch",
        format!("{short}/s"),
        "±",
        "p50 ms",
        "p95 ms",
        "first ms",
        "MiB",
        format!("MiB/{short}")
    )];
    for Size { batch, found } in sizes {
        let measured = match found {
            Ok(measured) => measured,
            Err(reason) => {
                lines.push(hanging(&format!("{batch:>8}  "), reason));
                continue;
            }
        };
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let peak = measured.peak_bytes.map(|bytes| bytes as f64);
        let ms = |seconds: f64| number(1e3 * seconds);
        lines.push(format!(
            "{batch:>8}{:>11}{:>8}{:>10}{:>10}{:>10}{:>9}{:>12}",
            number(measured.rate.median),
            share(measured.rate.relative()),
            ms(measured.p50_s.median),
            ms(measured.p95_s.median),
            ms(measured.first_s.median),
            peak.map_or_else(|| "-".to_owned(), |bytes| format!("{:.0}", mib(bytes))),
            peak.map_or_else(|| "-".to_owned(), |bytes| number(mib(bytes / *batch as f64))),
        ));
    }
    if let Some(Best { throughput, latency, memory }) = Best::of(sizes) {
        let close = 100.0 * CLOSE;
        lines.push(format!(
            "best throughput    batch {throughput}, the smallest within {close:.0} % of the largest rate"
        ));
        lines.push(format!("best latency       batch {latency}"));
        lines.extend(memory.map(|batch| format!("least MiB/{short:<9}batch {batch}")));
    }
    lines
}

fn work_json(work: Work, sizes: &[Size]) -> Value {
    let rows = sizes.iter().map(|Size { batch, found }| {
        let mut row = match found {
            Ok(measured) => measured.json(),
            Err(reason) => json!({ "failed": reason }),
        };
        row["batch"] = json!(batch);
        row
    });
    let best = Best::of(sizes).map(|Best { throughput, latency, memory }| {
        json!({ "throughput": throughput, "latency": latency, "memory_per_sample": memory })
    });
    json!({ "work": work.name(), "sizes": rows.collect::<Vec<_>>(), "best": best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::performance::planted_answer;

    #[test]
    fn the_best_sizes_are_by_rate_latency_and_memory() {
        // Seconds of a step of ten samples: the rates are 5, 10 and 10.1 a second.
        let size = |batch, seconds: f64, peak: u64| {
            let mut answer = planted_answer([seconds; 4]);
            answer.peak_bytes = Some(peak);
            Size { batch, found: Ok(Measured::of(vec![answer])) }
        };
        let failed = Size { batch: 8, found: Err(OUT_OF_MEMORY.to_owned()) };
        let sizes = [size(1, 2.0, 100), size(2, 1.0, 150), size(4, 0.99, 240), failed];
        let best = Best { throughput: 2, latency: 4, memory: Some(4) };
        assert_eq!(Best::of(&sizes), Some(best));
        assert_eq!(Best::of(&sizes[3..]), None);
        let lines = table(&sizes, "img");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        assert_eq!(lines[4], "       8  out of memory");
        let json = work_json(Work::Training, &sizes);
        assert_eq!(
            (&json["best"]["throughput"], &json["sizes"][3]["failed"]),
            (&json!(2), &json!(OUT_OF_MEMORY))
        );
    }
}
