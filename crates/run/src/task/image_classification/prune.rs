//! Structured pruning: training begins with the channels of a trained network that contribute most.

use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::Device;
use toml::{Table, Value};

use super::data_plan::DataPlan;
use super::other_run::OtherRun;
use crate::config::{ConfigError, Key, Keys, Plan, Settings};
use crate::error::RunError;
use crate::operation::load_stored;

pub(super) const RATIO: Key<f64> = Key::new(
    "model.prune_ratio",
    "separable, mobile-net and efficient-net only: the fraction of channels that are left out of the layers, or of the widths inside blocks; the network is narrower",
)
.default("0.0")
.check("at least 0 and below 1", |ratio| (0.0..1.0).contains(ratio));
const FROM: Key<PathBuf> = Key::new(
    "model.pruned_from",
    "separable, mobile-net and efficient-net only: a run of the network with the same or a lower `model.prune_ratio`, from whose served network the channels that contribute least are removed: training begins with the others, and with all of them at the same ratio",
)
.check("a path", |path| !path.as_os_str().is_empty());

/// The keys of pruning.
pub(super) const KEYS: Keys = &[&RATIO, &FROM];

/// Keys of `model` that may differ from the other run: they change no parameter's shape.
const FREE: [&str; 4] = ["prune_ratio", "pruned_from", "dropout", "drop_path"];

/// Initializes a network in f32 on a device, with this fraction of channels left out.
pub(super) type InitPruned<N> = Box<dyn Fn(&Device, f64) -> N>;

/// The run whose network is pruned.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pruning {
    run: PathBuf,
    ratio: f64,
}

impl Pruning {
    /// Reads the keys, for a network that can be pruned.
    pub(super) fn read(settings: &Settings) -> Result<Option<Self>, ConfigError> {
        let ratio = settings.value(&RATIO)?;
        Ok(settings.option(&FROM)?.map(|run| Self { run, ratio }))
    }

    /// Checks, without data, that the run exists, sees images as here and can be pruned.
    pub(super) fn find(&self, own: &DataPlan) -> Result<(), RunError> {
        self.check_source(&OtherRun::find(&FROM, &self.run, own)?)
    }

    /// Checks that the run's network can be pruned to the ratio here.
    fn check_source(&self, other: &OtherRun) -> Result<(), RunError> {
        if other.value("train", "quantization").is_some() {
            let what = "a run that was trained with `train.quantization`";
            return Err(other.refuse(what, "one without; this run may have it"));
        }
        let ratio = ratio_of(other);
        if ratio > self.ratio {
            let what = format!("a run whose `model.prune_ratio` is {ratio}");
            return Err(other.refuse(&what, &format!("at most {}, as here", self.ratio)));
        }
        Ok(())
    }

    /// Checks that the run has the same network but for channels, classes and images as here.
    pub(super) fn check(
        &self,
        plan: &Plan,
        own: &DataPlan,
        classes: &[String],
    ) -> Result<(), RunError> {
        let other = OtherRun::open(&FROM, &self.run)?;
        other.check(own, classes)?;
        let model = |plan: &Plan| -> Table {
            let model = plan.table().get("model").and_then(Value::as_table).cloned();
            let mut model = model.unwrap_or_default();
            model.retain(|key, _| !FREE.contains(&key));
            model
        };
        let (own, theirs) = (model(plan), model(&other.plan));
        // Compared first: for another kind, other keys differ as well.
        let kind = "kind".to_owned();
        let keys = std::iter::once(&kind).chain(own.keys()).chain(theirs.keys());
        for key in keys {
            if own.get(key) != theirs.get(key) {
                let shown = |value: Option<&Value>| {
                    value.map_or_else(|| "not given".to_owned(), Value::to_string)
                };
                let what = format!("a run whose `model.{key}` is {}", shown(theirs.get(key)));
                let expected =
                    format!("one whose `model.{key}` is {}, as here", shown(own.get(key)));
                return Err(other.refuse(&what, &expected));
            }
        }
        self.check_source(&other)
    }

    /// The run's served network.
    pub(super) fn load<N: Module>(
        &self,
        init: &InitPruned<N>,
        device: &Device,
    ) -> Result<N, RunError> {
        let other = OtherRun::open(&FROM, &self.run)?;
        load_stored(init(device, ratio_of(&other)), &other.plan, &other.folder)
    }
}

/// The share of channels that a run's network was built without.
fn ratio_of(other: &OtherRun) -> f64 {
    other.value("model", "prune_ratio").and_then(Value::as_float).unwrap_or(0.0)
}
