//! The keys of `tune`: search space, objectives and method. Only the command `tune` reads them.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use updraft_trainer::{Criterion, Direction, MetricSpec};
use updraft_tune::{
    Objective, PrunerSettings, Range, SamplerSettings, Space, StudySettings, TuneError,
};

use super::error::ConfigError;
use super::key::{Edit, Key, Keys};
use super::key_path::find;
use super::plan::{COMMON, Plan, Planned};
use super::settings::Settings;

/// The section of these keys.
pub(super) const SECTION: &str = "tune";

/// Objectives that are not metrics; lower is better.
const OTHERS: [&str; 2] = ["parameters", "seconds"];

const SPACE: Key<Table> = Key::new(
    "tune.space",
    "the keys to search: a table of key and range, such as `\"train.learning_rate\" = { kind = \"float\", low = 1e-4, high = 0.1, log = true }`; `float` and `integer` have `low`, `high`, `log` and `step`, `categorical` has `choices`, and each may have `when = { KEY = VALUE }`",
);
const TRIALS: Key<u64> =
    Key::new("tune.trials", "trials of the study, including those of earlier calls")
        .default("50")
        .check("1 to 100000", |trials| (1..=100_000).contains(trials));
const OBJECTIVES: Key<Vec<String>> = Key::new(
    "tune.objectives",
    "the objectives: metrics as in `train.criterion`, `parameters` or `seconds`; with several, the result is the Pareto front",
)
.depends("`train.criterion`")
.check("a list of one to eight names, none of them twice", |names| {
    (1..=8).contains(&names.len()) && (1..names.len()).all(|at| !names[..at].contains(&names[at]))
});
const SAMPLER: Key<SamplerSettings> =
    Key::new("tune.sampler", "or `nsga-ii`, `random`, `grid`: chooses the values of each trial")
        .default(r#"{ kind = "tpe", startup = 10, candidates = 24 }"#)
        .with(&[
            ("startup", "10", "`tpe`: random trials before it learns, 1 to 100000"),
            ("candidates", "24", "`tpe`: candidates for each trial, 1 to 10000"),
            ("population", "50", "`nsga-ii`: trials per generation, 4 to 100000"),
            ("points", "5", "`grid`: number of values for a range without `step`, 2 to 1000000"),
        ])
        .check(
            "one with `startup` 1 to 100000, `candidates` 1 to 10000, `population` 4 to 100000 \
             and `points` 2 to 1000000",
            |it| match *it {
                SamplerSettings::Tpe { startup, candidates } => {
                    (1..=100_000).contains(&startup) && (1..=10_000).contains(&candidates)
                }
                SamplerSettings::Evolution { population } => (4..=100_000).contains(&population),
                SamplerSettings::Random {} => true,
                SamplerSettings::Grid { points } => (2..=1_000_000).contains(&points),
            },
        );
const PRUNER: Key<PrunerSettings> = Key::new(
    "tune.pruner",
    "`median`, `successive-halving` or `hyperband`: stops trials that are worse than others at the same epoch; needs one objective, which is a metric",
)
.with(&[
    ("startup", "5", "`median`: finished trials before the first is stopped, 1 to 100000"),
    ("warmup", "0", "`median`: epochs of a trial before it can be stopped, at most 1000000000"),
    ("first", "1", "the others: the epoch of the first comparison, 1 to 1000000000"),
    ("reduction", "4, of `hyperband` 3", "the others: one of this many continues, 2 to 100000"),
])
.check(
    "one with `startup` 1 to 100000, `warmup` at most 1000000000, `first` 1 to 1000000000 \
     and `reduction` 2 to 100000",
    |it| match *it {
        PrunerSettings::Median { startup, warmup } => {
            (1..=100_000).contains(&startup) && warmup <= 1_000_000_000
        }
        PrunerSettings::SuccessiveHalving { first, reduction }
        | PrunerSettings::Hyperband { first, reduction } => {
            (1..=1_000_000_000).contains(&first) && (2..=100_000).contains(&reduction)
        }
    },
);
const SEED: Key<u64> = Key::new("tune.seed", "seed of the sampler").depends("`seed`");
const ATTEMPTS: Key<u64> = Key::new(
    "tune.attempts",
    "how often a trial is started if the whole study is killed while it runs; a limit for trials that bring down their machine",
)
.default("100")
.check("at least 1", |attempts| *attempts >= 1);
const KEEP: Key<KeepPlan> = Key::new(
    "tune.keep",
    "which weights are kept: `best`, those of the best trial or of all trials on the front, or `all`",
)
.default(r#""best""#);

/// The keys of `tune`.
pub(super) const KEYS: Keys =
    &[&SPACE, &TRIALS, &OBJECTIVES, &SAMPLER, &PRUNER, &SEED, &ATTEMPTS, &KEEP];

/// The trials whose weights a search keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepPlan {
    /// The best trial, or all trials on the front.
    Best,
    /// All trials.
    All,
}

/// The search in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct TunePlan {
    /// The study, without a digest of the data, which is not read.
    pub study: StudySettings,
    /// The trials whose weights are kept.
    pub keep: KeepPlan,
}

impl TunePlan {
    /// Reads the keys of `tune`.
    ///
    /// # Errors
    /// [`ConfigError`] for an invalid value and for an objective that the task does not have. The
    /// searched keys themselves are checked by plans with their values.
    pub fn read(planned: &Planned) -> Result<Self, ConfigError> {
        let Planned { plan, settings } = planned;
        let because = "a search, such as `[tune.space]` with \
                       `\"train.learning_rate\" = { kind = \"float\", low = 1e-4, high = 0.1 }`,";
        let space = settings.required(&SPACE, because)?;
        let space = Space::read(&space).map_err(|error| refuse(settings, &error))?;
        let own = || vec![plan.train.criterion.to_string()];
        let names = settings.value_or(&OBJECTIVES, own)?;
        for parameter in space.parameters() {
            refuse_unsuited(plan, settings, &names, parameter.key())?;
        }
        let metrics = plan.task.metrics();
        let objective = |name: &String| objective(settings, &metrics, name);
        let objectives = names.iter().map(objective).collect::<Result<Vec<_>, _>>()?;
        let pruner = settings.option(&PRUNER)?;
        if pruner.is_some() && (objectives.len() > 1 || OTHERS.contains(&names[0].as_str())) {
            let expected = "left out with several objectives or an objective that is not a metric: \
                            a pruner compares one metric after each epoch";
            return Err(settings.refuse_given("tune.pruner", expected));
        }
        let steps = space.parameters().iter().find_map(|parameter| match parameter.range() {
            Range::Integer { high, .. } if parameter.key() == "train.epochs" => Some(*high as u64),
            _ => None,
        });
        let study = StudySettings {
            shared: shared(plan, &space),
            data: String::new(),
            space,
            objectives,
            sampler: settings.value(&SAMPLER)?,
            pruner,
            steps: steps.unwrap_or(plan.train.epochs),
            seed: settings.value_or(&SEED, || plan.seed)?,
            trials: settings.value(&TRIALS)?,
            attempts: settings.value(&ATTEMPTS)?,
        };
        Ok(Self { study, keep: settings.value(&KEEP)? })
    }
}

/// Adds the file and line of the configuration to an error of a range or a condition.
fn refuse(settings: &Settings, error: &TuneError) -> ConfigError {
    match error {
        TuneError::Setting { key, value, expected } => settings.refuse(key, value, expected),
        other => settings.refuse_given("tune.space", &format!("one that can be searched: {other}")),
    }
}

/// Keys of `data` that choose the samples on which trials are compared.
const SAMPLES: [&str; 22] = [
    "dir",
    "source",
    "files",
    "test_files",
    "test_fraction",
    "folds",
    "fold",
    "stratify",
    "group",
    "train_rows",
    "test_rows",
    "train",
    "test",
    "train_images",
    "test_images",
    "train_fields",
    "test_fields",
    "train_split",
    "test_split",
    "formula",
    "manifest",
    "how_to_get",
];

/// Refuses a key that changes no result of a trial, or that changes what results are measured by.
fn refuse_unsuited(
    plan: &Plan,
    settings: &Settings,
    objectives: &[String],
    key: &str,
) -> Result<(), ConfigError> {
    let is_below = |name: &str| {
        key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut keys = COMMON.iter().chain(plan.kind().keys()).copied().flatten();
    let own = keys.find(|own| is_below(own.name()));
    let is_sample = |name: &&str| is_below(&format!("data.{name}"));
    let is_loss = |name: &String| name.split('-').any(|part| part == "loss");
    let decides_loss =
        ["targets", "train.loss", "train.target_weights"].iter().any(|it| is_below(it));
    let reason = if SAMPLES.iter().any(is_sample) {
        "trials are compared on the same samples"
    } else if let (true, Some(loss)) = (decides_loss, objectives.iter().find(|it| is_loss(it))) {
        let expected = format!("left out beside the objective `{loss}`, which it defines");
        return Err(settings.refuse(&format!("tune.space.{key}"), "given", expected));
    } else if is_below(SECTION) {
        "only the search reads it, not its trials"
    } else if key == "train.criterion" {
        "trials are compared by `tune.objectives`"
    } else if own.is_some_and(|own| own.edit() == Edit::Free && !own.is_performance()) {
        "it changes no result of a trial"
    } else {
        return Ok(());
    };
    Err(settings.refuse(&format!("tune.space.{key}"), "given", format!("left out: {reason}")))
}

fn objective(
    settings: &Settings,
    metrics: &[MetricSpec],
    name: &str,
) -> Result<Objective, ConfigError> {
    let minimize = updraft_tune::Direction::Minimize;
    if OTHERS.contains(&name) {
        return Ok(Objective { name: name.to_owned(), direction: minimize });
    }
    let criterion = name.parse::<Criterion>().ok();
    let found = criterion.and_then(|it| it.direction(metrics).ok());
    let direction = found.ok_or_else(|| {
        let known = metrics.iter().map(|metric| format!("`test-{}`", metric.name));
        let known = known.chain(OTHERS.map(|name| format!("`{name}`"))).collect::<Vec<_>>();
        let expected = format!("one of {}, or `train-` in place of `test-`", known.join(", "));
        settings.refuse("tune.objectives", format!("`{name}`"), expected)
    })?;
    let direction = match direction {
        Direction::LowerIsBetter => minimize,
        Direction::HigherIsBetter => updraft_tune::Direction::Maximize,
    };
    Ok(Objective { name: name.to_owned(), direction })
}

/// The settings that all trials share and that affect their results: the plan without the searched
/// keys.
fn shared(plan: &Plan, space: &Space) -> serde_json::Value {
    let searched = |name: &str| {
        space.parameters().iter().any(|parameter| {
            let rest = parameter.key().strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let keys = COMMON.iter().chain(plan.kind().keys()).copied().flatten();
    let kept = keys.filter(|key| key.edit() != Edit::Free && !searched(key.name()));
    let value = |value: &Value| serde_json::to_value(value).unwrap_or_default();
    let values = kept.filter_map(|key| {
        let found = find(plan.table(), key.name())?;
        Some((key.name().to_owned(), value(found)))
    });
    serde_json::Value::Object(values.collect())
}
