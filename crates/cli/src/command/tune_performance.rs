//! `tune-performance`: a profile of the keys that make training faster on this machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use updraft_device::applied;
use updraft_run::{Plan, Registry};

use super::would::dry_run_of;
use super::{ConfigArgs, cannot, device_of, open};
use crate::json::JsonArgs;
use crate::output_file::{OutputKind, check_output};
use crate::performance::{
    Facts, Folder, Kind, MOST_STEPS, Measured, Row, Series, Setting, Spread, Switch, Work,
};
use crate::progress::Display;
use crate::whole_file::Output;
use crate::wrap::{counted, hanging};
use crate::{Failed, program};

const EXAMPLES: &str = "\
Examples:
  tune-performance CONFIG
  tune-performance CONFIG --out fast.toml   then: train CONFIG --profile fast.toml
";

/// The first words of a profile.
const PROFILE: OutputKind =
    OutputKind { command: "tune-performance", mark: "# Written by `tune-performance` for " };

/// A key that gains less stays off.
const LEAST_GAIN: f64 = 0.05;

/// The largest number of workers that is tried.
const MOST_WORKERS: usize = 8;

/// Finds the settings with which a config trains fastest on this machine, and writes them as a
/// profile.
///
/// Each key of performance is measured at its values, each in a separate process, with the keys
/// that were decided before. A value that gains less than 5 %, or less than the spread of the
/// repeats, is not taken. Nothing in a profile changes what is learned: the precision and the number
/// of threads are measured as well, and suggested only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TunePerformanceArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The file of the profile [default: runs/profiles/NAME.toml, where NAME is the config's
    /// `name`]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Timed steps of each repeat
    #[arg(long, value_name = "N", default_value_t = 20)]
    steps: usize,
    /// Repeats of each value
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: usize,
    #[command(flatten)]
    json: JsonArgs,
}

impl TunePerformanceArgs {
    fn check(&self) -> Result<()> {
        ensure!(
            (1..=MOST_STEPS).contains(&self.steps),
            "--steps is {}; it must be 1 to {MOST_STEPS}",
            self.steps
        );
        // One repeat has no spread that a gain could be compared with.
        ensure!(
            (2..=MOST_STEPS).contains(&self.repeats),
            "--repeats is {}; it must be 2 to {MOST_STEPS}",
            self.repeats
        );
        let is_profile = |path: &PathBuf| path.extension().is_some_and(|it| it == "toml");
        match &self.out {
            Some(path) if !is_profile(path) => {
                bail!("--out is `{}`; it must end with .toml, as profiles do", path.display())
            }
            _ => Ok(()),
        }
    }

    fn file(&self, plan: &Plan) -> PathBuf {
        let own = || Path::new("runs").join("profiles").join(format!("{}.toml", plan.name));
        self.out.clone().unwrap_or_else(own)
    }

    /// The file of the profile, unless it would replace something else than an earlier one.
    fn free_file(&self, plan: &Plan) -> Result<PathBuf> {
        let file = self.file(plan);
        check_output(&file, PROFILE, &self.config.files())?;
        Ok(file)
    }

    /// A row with settings on top of those that were decided.
    fn row(
        &self,
        registry: Registry,
        name: &str,
        decided: &[String],
        more: &Setting,
    ) -> Result<(Row, Plan)> {
        let mut config = self.config.clone();
        config.sets.extend(decided.iter().chain(&more.sets).cloned());
        let plan = config.plan_in_silence(registry)?.plan;
        let row = Row { name: name.to_owned(), kind: Kind::Alone, setting: more.clone() };
        Ok((row, plan))
    }
}

/// The values of a key, or of what is only suggested.
struct Candidates {
    name: &'static str,
    /// What it is without a gain, in words.
    off: String,
    off_setting: Setting,
    /// In words and as a setting.
    values: Vec<(String, Setting)>,
}

/// What was measured of a key.
struct Decision {
    name: &'static str,
    off: String,
    /// Each value with its rate beside that without it, or the reason why there is none.
    tried: Vec<(String, Result<Spread, String>)>,
    /// The value that gains enough.
    taken: Option<(String, Spread)>,
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &TunePerformanceArgs) -> Result<()> {
    args.check()?;
    let mut file = Ok(PathBuf::new());
    dry_run_of(registry, &args.config, |plan| {
        file = args.free_file(plan);
        args.file(plan).display().to_string()
    })?;
    file.map(drop)
}

/// Measures the keys one after another and writes the profile.
pub(crate) fn run(registry: Registry, args: &TunePerformanceArgs) -> Result<()> {
    args.check()?;
    let plan = args.config.plan(registry)?.plan;
    let path = args.free_file(&plan)?;
    let (device, selection) = device_of(&plan)?;
    let mut display = Display::new();
    let workload = open(&plan, args.config.data.as_deref(), None, &mut display)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause))?;
    }
    let output = Output::open(&path)?;
    let about = workload.about();
    let applied = applied(&device.clone().autodiff());
    let facts = Facts::of(&selection, &device, &applied, Some(&*workload));
    let folder = Folder::create()?;
    let series = Series {
        folder: &folder,
        display: &display,
        work: Work::Training,
        steps: args.steps,
        repeats: args.repeats,
        short: about.short,
        limit: None,
    };
    let (keys, without_effect) = keys(&plan, &facts);
    let mut decided: Vec<String> = Vec::new();
    // All of them off, before the first is decided.
    let mut values: Vec<String> = keys.iter().flat_map(|it| it.off_setting.sets.clone()).collect();
    let mut decisions = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let decision = decide(args, registry, &series, &values, key)?;
        if let Some((taken, _)) = &decision.taken {
            let found = key.values.iter().find(|(words, _)| words == taken);
            values[at] = found.map_or_else(|| values[at].clone(), |(_, it)| it.sets[0].clone());
        }
        decided.push(values[at].clone());
        decisions.push(decision);
    }
    let suggested = suggestions(&plan, &facts).into_iter();
    let suggested = suggested.map(|key| decide(args, registry, &series, &values, &key));
    let suggested = suggested.collect::<Result<Vec<_>>>()?;
    display.clear();
    drop(folder);
    let on = format!("{} with {}", selection.id, counted(applied.threads as u64, "thread"));
    let text = profile(&decided, &decisions, &header(&plan, &on, args));
    output.write(&text)?;
    let title = format!("{} on {}: {}", plan.name, selection.id, about.model);
    crate::print(&hanging("", &title))?;
    for line in table(&decisions, &suggested, &without_effect) {
        crate::print(&line)?;
    }
    crate::print(&hanging("profile    ", &path.display().to_string()))?;
    let of = |decisions: &[Decision]| decisions.iter().map(Decision::json).collect::<Vec<_>>();
    args.json.print(&json!({
        "version": 1,
        "profile": path.to_string_lossy(),
        "device": selection.id.to_string(),
        "keys": of(&decisions),
        "suggested": of(&suggested),
    }))?;
    let profile = program::quoted(&path.to_string_lossy());
    program::next(&format!("train{} --profile {profile}", args.config.words()));
    Ok(())
}

/// The keys of a profile that have an effect, and the others with the reason.
fn keys(plan: &Plan, facts: &Facts<'_>) -> (Vec<Candidates>, Vec<(&'static str, String)>) {
    let (mut keys, mut without_effect) = (Vec::new(), Vec::new());
    for switch in [Switch::Cache, Switch::Workers, Switch::Transfer] {
        let found = match switch.of(plan, Work::Training, facts) {
            Ok(found) => found,
            Err(reason) => {
                without_effect.push((switch.name(), reason));
                continue;
            }
        };
        let words = |setting: &Setting| setting.sets.join(" ");
        let mut values = vec![(words(&found.on), found.on)];
        if switch == Switch::Workers {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let counts = [1, 2, 4, 8].into_iter();
            let counts = counts.filter(|&count| count <= processors.min(MOST_WORKERS));
            for set in counts.map(|count| format!("train.workers={count}")) {
                if values.iter().all(|(words, _)| *words != set) {
                    values.push((set.clone(), Setting { sets: vec![set], ..Setting::default() }));
                }
            }
        }
        let (off, off_setting) = (words(&found.off), found.off);
        keys.push(Candidates { name: switch.name(), off, off_setting, values });
    }
    (keys, without_effect)
}

/// What is measured and not written: the environment decides the number of threads, and the
/// precision changes what is learned.
fn suggestions(plan: &Plan, facts: &Facts<'_>) -> Vec<Candidates> {
    let mut all = Vec::new();
    if let Ok(found) = Switch::Threads.of(plan, Work::Training, facts) {
        let of = |threads: usize| {
            let setting = Setting { threads: Some(threads), ..Setting::default() };
            (format!("RAYON_NUM_THREADS={threads}"), setting)
        };
        let powers = (0..).map(|power| 1 << power).take_while(|&count| count < facts.threads);
        let values = powers.map(of).collect();
        let (off, off_setting) = (of(facts.threads).0, found.on);
        all.push(Candidates { name: Switch::Threads.name(), off, off_setting, values });
    }
    if let Ok(found) = Switch::Precision.of(plan, Work::Training, facts)
        && plan.precision == updraft_precision::Policy::F32
    {
        let (off, on) = (found.off.sets.join(" "), found.on.sets.join(" "));
        let values = vec![(on, found.on)];
        all.push(Candidates { name: "precision", off, off_setting: found.off, values });
    }
    all
}

/// Measures the values of a key with what was decided, and takes the fastest if it gains enough.
fn decide(
    args: &TunePerformanceArgs,
    registry: Registry,
    series: &Series<'_>,
    decided: &[String],
    key: &Candidates,
) -> Result<Decision> {
    let mut rows = vec![args.row(registry, &key.off, decided, &key.off_setting)?];
    for (words, setting) in &key.values {
        rows.push(args.row(registry, words, decided, setting)?);
    }
    let mut measured = series.measure(&rows)?.into_iter();
    let baseline = measured.next().unwrap_or_else(|| Err("nothing was measured".to_owned()));
    let baseline = baseline.map_err(|reason| anyhow!(Failed(format!("{}: {reason}", key.off))))?;
    let ratio = |found: Result<Measured, String>| found.map(|it| it.ratio(&baseline));
    let words = key.values.iter().map(|(words, _)| words.clone());
    let tried: Vec<_> = words.zip(measured.map(ratio)).collect();
    let taken = fastest(&tried);
    Ok(Decision { name: key.name, off: key.off.clone(), tried, taken })
}

/// The value with the largest gain, if that is more than 5 % and more than half the range of the
/// repeats.
fn fastest(tried: &[(String, Result<Spread, String>)]) -> Option<(String, Spread)> {
    let measured = tried.iter().filter_map(|(words, ratio)| Some((words, *ratio.as_ref().ok()?)));
    let is_enough =
        |ratio: &Spread| ratio.median - 1.0 > LEAST_GAIN.max(0.5 * (ratio.high - ratio.low));
    let enough = measured.filter(|(_, ratio)| is_enough(ratio));
    let best = enough.max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    best.map(|(words, ratio)| (words.clone(), ratio))
}

impl Decision {
    fn json(&self) -> Value {
        let tried = self.tried.iter().map(|(value, ratio)| match ratio {
            Ok(it) => json!({ "value": value, "ratio": it.median, "low": it.low, "high": it.high }),
            Err(reason) => json!({ "value": value, "failed": reason }),
        });
        json!({
            "name": self.name,
            "off": self.off,
            "tried": tried.collect::<Vec<_>>(),
            "taken": self.taken.as_ref().map(|(value, _)| value),
        })
    }
}

fn header(plan: &Plan, on: &str, args: &TunePerformanceArgs) -> String {
    format!(
        "{}{}, on {on}: {}, {}.\n\
         # A value that gains less than {:.0} %, or less than the spread, is not taken.\n",
        PROFILE.mark,
        plan.name,
        counted(args.steps as u64, "step"),
        counted(args.repeats as u64, "repeat"),
        100.0 * LEAST_GAIN
    )
}

/// The profile: each key at the value that was decided, with what was measured.
fn profile(decided: &[String], decisions: &[Decision], header: &str) -> String {
    let mut text = header.to_owned();
    let mut sets: Vec<(&String, &Decision)> = decided.iter().zip(decisions).collect();
    // Recomputation saves memory and takes time.
    let recompute = "train.recompute=\"none\"".to_owned();
    let none = Decision { name: "", off: String::new(), tried: Vec::new(), taken: None };
    sets.push((&recompute, &none));
    sets.sort_by_key(|(set, _)| set.split('.').next().map(|section| section == "data"));
    let mut open = "";
    for (set, decision) in sets {
        let (path, value) = set.split_once('=').unwrap_or((set, ""));
        let (section, name) = path.split_once('.').unwrap_or(("", path));
        if section != open {
            let _ = write!(text, "\n[{section}]\n");
            open = section;
        }
        for (tried, ratio) in &decision.tried {
            let found = match ratio {
                Ok(it) => format!("{:.2} times the rate of {}", it.median, decision.off),
                Err(reason) => reason.clone(),
            };
            let _ = writeln!(text, "# {tried}: {found}");
        }
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

fn table(
    decisions: &[Decision],
    suggested: &[Decision],
    without_effect: &[(&str, String)],
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |decision: &Decision, is_written: bool| {
        for (at, (value, ratio)) in decision.tried.iter().enumerate() {
            let name = if at == 0 { decision.name } else { "" };
            let is_taken = decision.taken.as_ref().is_some_and(|(taken, _)| taken == value);
            let word = match (is_taken, is_written) {
                (true, true) => "taken",
                (true, false) => "suggested",
                (false, _) => "",
            };
            let text = match ratio {
                Ok(it) => format!("{:>6.2}  ({:.2} to {:.2})  {word}", it.median, it.low, it.high),
                Err(reason) => reason.clone(),
            };
            lines.push(hanging(&format!("{name:11}{value:32}"), text.trim_end()));
        }
    };
    decisions.iter().for_each(|decision| add(decision, true));
    suggested.iter().for_each(|decision| add(decision, false));
    for (name, reason) in without_effect {
        lines.push(hanging(&format!("{name:11}no effect: "), reason));
    }
    let note =
        "rates beside that without the value; at least 5 % and more than the spread are a gain";
    let mut all = vec![hanging("", note)];
    all.extend(lines);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64, low: f64, high: f64) -> Result<Spread, String> {
        Ok(Spread { median, low, high })
    }

    fn tried(values: &[(&str, Result<Spread, String>)]) -> Vec<(String, Result<Spread, String>)> {
        values.iter().map(|(name, ratio)| ((*name).to_owned(), ratio.clone())).collect()
    }

    #[test]
    fn a_gain_below_five_per_cent_or_within_the_spread_is_not_taken() {
        let name = |found: Option<(String, Spread)>| found.map(|(name, _)| name);
        let small = ("small", spread(1.04, 1.03, 1.05));
        let noisy = ("noisy", spread(1.2, 0.9, 1.5));
        let clear = ("clear", spread(1.1, 1.08, 1.13));
        let failed = ("failed", Err("out of memory".to_owned()));
        let all = [small.clone(), noisy, clear, failed.clone()];
        assert_eq!(name(fastest(&tried(&all))).as_deref(), Some("clear"));
        assert_eq!(name(fastest(&tried(&[small, failed]))), None);
    }

    #[test]
    fn a_profile_has_a_section_for_each_table_and_reads_as_toml() {
        let decision = |name, off: &str, value: &str| Decision {
            name,
            off: off.to_owned(),
            tried: tried(&[(value, spread(1.1, 1.1, 1.1))]),
            taken: None,
        };
        let decisions = [
            decision("cache", "data.cache={ kind = \"none\" }", "data.cache={ kind = \"whole\" }"),
            decision("workers", "train.workers=0", "train.workers=\"auto\""),
        ];
        let decided = ["data.cache={ kind = \"whole\" }", "train.workers=0"].map(str::to_owned);
        let text = profile(&decided, &decisions, "# A header.\n");
        let read: toml::Table = toml::from_str(&text).expect("TOML");
        assert_eq!(read["data"]["cache"]["kind"].as_str(), Some("whole"), "{text}");
        assert_eq!(read["train"]["workers"].as_integer(), Some(0), "{text}");
        assert_eq!(read["train"]["recompute"].as_str(), Some("none"), "{text}");
        assert!(text.contains("# train.workers=\"auto\": 1.10 times the rate of train.workers=0"));
        let text = table(&decisions, &[], &[("transfer", "it is there".to_owned())]).join("\n");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
