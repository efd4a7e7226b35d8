//! `compare-options`: what each optimization brings for a config on this machine, and whether the
//! results stay right.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use burn::tensor::Device;
use clap::Args;
use serde_json::{Value, json};
use updraft_device::{Selection, applied};
use updraft_run::{About, Plan, Registry};

use super::would::{Would, config_of, data_of};
use super::{ConfigArgs, cannot, device_of, open};
use crate::json::JsonArgs;
use crate::output_file::{OutputKind, check_output};
use crate::performance::{
    Compared, ComparedOrder, Comparison, Facts, Folder, Kind, MOST_STEPS, Measured, Row, RowResult,
    Samples, Series, Setting, Switch, Work, lines, measure, rows,
};
use crate::progress::Display;
use crate::report::options_page;
use crate::whole_file::Output;
use crate::wrap::hanging;
use crate::{Failed, program};

const EXAMPLES: &str = "\
Examples:
  compare-options CONFIG                  every optimization, in training and in
                                          inference
  compare-options CONFIG --options kernels,threads
  compare-options CONFIG --try train.workers=4 --try 'train.batch=16 train.workers=2'
                                          settings of your own, each as a row
";

/// The two files that it writes.
const FILES: [(&str, OutputKind); 2] = [
    ("report.html", OutputKind { command: COMMAND, mark: ": optimizations compared</title>" }),
    ("result.json", OutputKind { command: COMMAND, mark: "\"comparisons\": [" }),
];

const COMMAND: &str = "compare-options";

/// Measures what each optimization brings for a config on this machine, and compares the results
/// with those without it.
///
/// The baseline has all compared optimizations off; each of them is measured alone, then they are
/// switched on one after another. Each measurement has a process of its own, repeats alternate
/// between the rows, and data is read once before the clock starts.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareOptionsArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The optimizations to compare, in the order in which they are added [default: kernels,
    /// threads, precision, workers, cache, transfer, batch, recompute, fusion, autotune]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    options: Vec<String>,
    /// Settings of one more row, separated by spaces, such as --try train.workers=4 (repeatable)
    #[arg(long = "try", value_name = "SETTINGS")]
    tried: Vec<String>,
    /// Measure only training or only inference
    #[arg(long, value_name = "WORK", value_parser = ["training", "inference"])]
    only: Option<String>,
    /// Timed steps of each repeat
    #[arg(long, value_name = "N", default_value_t = 20)]
    steps: usize,
    /// Repeats of each row
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    /// The folder of report.html and result.json [default: runs/options/NAME, where NAME is the
    /// config's `name`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

/// The hidden command of the processes that measure.
#[derive(Debug, Args)]
pub(crate) struct MeasureStepsArgs {
    /// The file that says what to measure
    order: PathBuf,
}

/// Measures in this process what a file says.
pub(crate) fn measure_steps(registry: Registry, args: &MeasureStepsArgs) -> Result<()> {
    measure(registry, &args.order)
}

/// A config with all that decides which rows there are.
struct Opened {
    plan: Plan,
    device: Device,
    selection: Selection,
    about: About,
    works: Vec<Planned>,
}

/// The rows of training or of inference.
struct Planned {
    work: Work,
    rows: Vec<(Row, Plan)>,
    /// Both settings of each compared optimization, in words.
    words: Vec<(&'static str, String)>,
    without_effect: Vec<(&'static str, String)>,
}

impl CompareOptionsArgs {
    /// Reads the config and finds the rows; `display` is `None` for a dry run, which reads no data.
    fn open(&self, registry: Registry, display: Option<&mut Display>) -> Result<Opened> {
        for (option, value) in [("--steps", self.steps), ("--repeats", self.repeats)] {
            ensure!(
                (1..=MOST_STEPS).contains(&value),
                "{option} is {value}; it must be 1 to {MOST_STEPS}"
            );
        }
        let switches = match &self.options[..] {
            [] => Switch::ALL.to_vec(),
            names => Switch::named(names)?,
        };
        ensure!(
            self.tried.iter().all(|settings| !settings.trim().is_empty()),
            "a --try is empty; give its settings, such as train.workers=4"
        );
        let plan = self.config.plan(registry)?.plan;
        self.refuse_others(&plan)?;
        let (device, selection) = device_of(&plan)?;
        let data = self.config.data.as_deref();
        let workload = match display {
            Some(display) => Some(open(&plan, data, None, display)?),
            None => {
                plan.find_inputs(data)?;
                None
            }
        };
        let applied = applied(&device.clone().autodiff());
        let facts = Facts::of(&selection, &device, &applied, workload.as_deref());
        let works = Work::ALL.into_iter();
        let works = works.filter(|work| self.only.as_ref().is_none_or(|only| only == work.name()));
        let works: Result<Vec<Planned>> =
            works.map(|work| self.planned(registry, &plan, work, (&switches, &facts))).collect();
        let works = works?;
        let about = workload.map_or_else(|| About::new("", ""), |workload| workload.about());
        Ok(Opened { plan, device, selection, about, works })
    }

    /// The rows that there are: an optimization with the same plan in both settings, and one that
    /// the config cannot have, has no effect.
    fn planned(
        &self,
        registry: Registry,
        plan: &Plan,
        work: Work,
        (switches, facts): (&[Switch], &Facts<'_>),
    ) -> Result<Planned> {
        let (mut switched, mut without_effect) = (Vec::new(), Vec::new());
        for switch in switches {
            let found = switch.of(plan, work, facts).and_then(|found| {
                let planned = |setting: &Setting| {
                    self.plan_of(registry, setting).map_err(|error| format!("{error:#}"))
                };
                let (off, on) = (planned(&found.off)?, planned(&found.on)?);
                match found.on.sets.is_empty() || off.to_toml() != on.to_toml() {
                    true => Ok(found),
                    false => Err("both settings give the same plan".to_owned()),
                }
            });
            match found {
                Ok(found) => switched.push(found),
                Err(reason) => without_effect.push((switch.name(), reason)),
            }
        }
        let rows = rows(&switched, &self.tried).into_iter().map(|row| {
            let plan = self.plan_of(registry, &row.setting);
            let plan = plan.with_context(|| format!("the row `{}`", row.name))?;
            Ok((row, plan))
        });
        let rows = rows.collect::<Result<_>>()?;
        let words = switched.into_iter().map(|it| (it.switch.name(), it.words)).collect();
        Ok(Planned { work, rows, words, without_effect })
    }

    /// The plan of a row.
    fn plan_of(&self, registry: Registry, setting: &Setting) -> Result<Plan> {
        let mut config = self.config.clone();
        config.sets.extend(setting.sets.iter().cloned());
        Ok(config.plan_in_silence(registry)?.plan)
    }

    fn folder(&self, plan: &Plan) -> PathBuf {
        let own = || Path::new("runs").join("options").join(&plan.name);
        self.out.clone().unwrap_or_else(own)
    }

    /// Returns an error for results that would replace other files than earlier ones.
    fn refuse_others(&self, plan: &Plan) -> Result<()> {
        let (folder, inputs) = (self.folder(plan), self.config.files());
        FILES.iter().try_for_each(|(name, kind)| check_output(&folder.join(name), *kind, &inputs))
    }
}

/// Prints what would be read and written, and the rows.
pub(crate) fn dry_run(registry: Registry, args: &CompareOptionsArgs) -> Result<()> {
    let opened = args.open(registry, None)?;
    let data = data_of(&opened.plan, args.config.data.as_deref());
    let out = args.folder(&opened.plan);
    let reads = format!("{} and {data}", config_of(&args.config));
    let writes = format!("report.html and result.json in {}", out.display());
    Would::new(reads, writes).print()?;
    for Planned { work, rows, words, without_effect } in &opened.works {
        crate::print(&format!("# {}:", work.name()))?;
        for (name, words) in words {
            crate::print(&hanging(&format!("#   {name:12}"), words))?;
        }
        for (name, reason) in without_effect {
            crate::print(&hanging(&format!("#   {name:12}no effect: "), reason))?;
        }
        let names = rows.iter().map(|(row, _)| row.name.as_str()).collect::<Vec<_>>().join(", ");
        crate::print(&hanging("#   rows        ", &names))?;
    }
    Ok(())
}

/// Measures every row and prints and writes the results.
pub(crate) fn run(registry: Registry, args: &CompareOptionsArgs) -> Result<()> {
    let mut display = Display::new();
    let opened = args.open(registry, Some(&mut display))?;
    let out = args.folder(&opened.plan);
    std::fs::create_dir_all(&out).map_err(|cause| cannot("create", &out, cause))?;
    let [page, file] = FILES.map(|(name, _)| out.join(name));
    let [page_output, file_output] = [Output::open(&page)?, Output::open(&file)?];
    let folder = Folder::create()?;
    let mut comparisons = Vec::new();
    for planned in &opened.works {
        comparisons.push(compare(args, &opened, planned, (&folder, &display))?);
    }
    display.clear();
    drop(folder);
    let words = &opened.works[0].words;
    let words: Vec<String> = words.iter().map(|(name, words)| format!("{name}: {words}")).collect();
    for line in about(&opened) {
        crate::print(&hanging("", &line))?;
    }
    for line in &words {
        crate::print(&hanging("  ", line))?;
    }
    for comparison in &comparisons {
        crate::print("")?;
        lines(comparison).iter().try_for_each(|line| crate::print(line))?;
    }
    let result = result(&opened, &comparisons);
    let text = options_page(
        &opened.plan.name,
        &about(&opened).into_iter().chain(words).collect::<Vec<_>>(),
        &comparisons,
    );
    page_output.write(&text)?;
    let text = format!("{:#}\n", result);
    file_output.write(&text)?;
    crate::print("")?;
    crate::print(&hanging("page       ", &page.display().to_string()))?;
    args.json.print(&result)?;
    program::next(&format!("tune-performance{}", args.config.words()));
    Ok(())
}

/// Device, data and model, each in a line.
fn about(opened: &Opened) -> Vec<String> {
    let Opened { plan, selection, about, .. } = opened;
    let batch = format!("batch {} of {}", plan.train.batch, about.samples);
    vec![
        format!("{} on {}: {}", plan.name, selection.id, about.model),
        format!("{}; {batch}", about.data),
    ]
}

fn result(opened: &Opened, comparisons: &[Comparison]) -> Value {
    json!({
        "version": 1,
        "name": opened.plan.name,
        "device": opened.selection.id.to_string(),
        "model": opened.about.model,
        "data": opened.about.data,
        "batch": opened.plan.train.batch,
        "comparisons": comparisons.iter().map(Comparison::json).collect::<Vec<_>>(),
    })
}

/// Measures the rows of training or of inference, the repeats of all rows in turn.
fn compare(
    args: &CompareOptionsArgs,
    opened: &Opened,
    planned: &Planned,
    (folder, display): (&Folder, &Display),
) -> Result<Comparison> {
    let Planned { work, rows, without_effect, .. } = planned;
    let (work, short) = (*work, opened.about.short);
    let (steps, repeats) = (args.steps, args.repeats);
    let series = Series { folder, display, work, steps, repeats, short, limit: None };
    let largest = rows.iter().map(|(_, plan)| plan.train.batch).max().unwrap_or(1);
    let mut samples = Samples::MultipleOf(largest);
    let mut found: Vec<Result<Vec<_>, String>> = rows.iter().map(|_| Ok(Vec::new())).collect();
    let mut compared: Vec<Option<Compared>> = rows.iter().map(|_| None).collect();
    for repeat in 0..repeats {
        for (at, (row, plan)) in rows.iter().enumerate() {
            let Ok(answers) = &mut found[at] else { continue };
            let file = folder.file("compared");
            let order = (repeat == 0).then(|| ComparedOrder { file: file.clone(), samples });
            match series.once(row, plan, repeat, order)? {
                Err(reason) if row.kind == Kind::Baseline => {
                    bail!(Failed(format!("the baseline of {} failed: {reason}", work.name())))
                }
                Err(reason) => found[at] = Err(reason),
                Ok(answer) => {
                    answers.push(answer);
                    if repeat == 0 {
                        let read = Compared::read(&file)?;
                        if row.kind == Kind::Baseline {
                            samples = Samples::Exactly(read.samples());
                        }
                        compared[at] = Some(read);
                    }
                }
            }
        }
    }
    let baseline = compared[0].take().context("the baseline was measured")?;
    let results = rows.iter().zip(found).zip(compared).map(|(((row, plan), found), compared)| {
        let same_batch = plan.train.batch == rows[0].1.train.batch;
        let difference = compared.map(|compared| {
            let found = compared.against(&baseline, same_batch, &opened.device);
            found.map_err(|error| format!("{error:#}"))
        });
        let measured = found.map(Measured::of);
        RowResult { row: row.clone(), measured, ratio: None, difference }
    });
    let (rows, without_effect) = (results.collect(), without_effect.clone());
    let comparison = Comparison { work, rows, without_effect, short, steps, repeats };
    Ok(comparison.with_ratios())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_the_options_is_all_of_them_in_their_order() {
        let names = Switch::ALL.map(|switch| switch.name().to_owned());
        assert_eq!(Switch::named(&names).expect("known"), Switch::ALL);
        let help = <CompareOptionsArgs as Args>::augment_args(clap::Command::new("a"))
            .render_long_help()
            .to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&format!("[default: {}]", names.join(", "))), "{help}");
    }
}
