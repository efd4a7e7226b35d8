//! The optimizations that are compared: what each sets, and where it has no effect.

use anyhow::{Result, bail};
use burn::tensor::Device;
use toml::{Table, Value};
use updraft_device::{Applied, Backend, Selection};
use updraft_precision::Policy;
use updraft_run::{AnyWorkload, Plan, RecomputePlan, WorkersPlan, runs_kernels};

use super::order::{Setting, Work};

/// An optimization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    Kernels,
    Threads,
    Precision,
    Workers,
    Cache,
    Transfer,
    Batch,
    Recompute,
    Fusion,
    Autotune,
}

/// What decides about the effect of an optimization, apart from the plan.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) selection: &'a Selection,
    pub(crate) device: &'a Device,
    pub(crate) applied: &'a Applied,
    /// Whether our kernels compute layers there.
    pub(crate) runs_kernels: bool,
    /// Whether a layer of the network multiplies bf16 under `bf16-products`; `None` for data that was
    /// not opened.
    pub(crate) multiplies_bf16: Option<bool>,
    /// `None` for data that was not opened.
    pub(crate) train_samples: Option<usize>,
    /// The number of processors, or that of `RAYON_NUM_THREADS`.
    pub(crate) threads: usize,
}

/// An optimization with both of its settings, for one config and device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Switched {
    pub(crate) switch: Switch,
    pub(crate) off: Setting,
    pub(crate) on: Setting,
    /// Both in words, such as `f32 → bf16-mixed`.
    pub(crate) words: String,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(
        selection: &'a Selection,
        device: &'a Device,
        applied: &'a Applied,
        workload: Option<&dyn AnyWorkload>,
    ) -> Self {
        Self {
            selection,
            device,
            applied,
            runs_kernels: runs_kernels(device),
            multiplies_bf16: workload.map(|workload| workload.multiplies_bf16(device)),
            train_samples: workload.map(|workload| workload.about().train_samples),
            threads: applied.threads,
        }
    }
}

impl Switch {
    /// In the order in which they are switched on one after another; recomputation is last because
    /// it takes time to save memory.
    pub(crate) const ALL: [Self; 10] = [
        Self::Kernels,
        Self::Threads,
        Self::Precision,
        Self::Workers,
        Self::Cache,
        Self::Transfer,
        Self::Batch,
        Self::Recompute,
        Self::Fusion,
        Self::Autotune,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Threads => "threads",
            Self::Precision => "precision",
            Self::Workers => "workers",
            Self::Cache => "cache",
            Self::Transfer => "transfer",
            Self::Batch => "batch",
            Self::Recompute => "recompute",
            Self::Fusion => "fusion",
            Self::Autotune => "autotune",
        }
    }

    /// The names of a list, in its order.
    ///
    /// # Errors
    /// An error with the known names for one that is unknown, and for one that is named twice.
    pub(crate) fn named(names: &[String]) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for name in names {
            let found = Self::ALL.into_iter().find(|switch| switch.name() == name);
            let Some(found) = found else {
                let known = Self::ALL.map(Self::name).join(", ");
                bail!("--options names `{name}`; it must be a list of {known}")
            };
            if all.contains(&found) {
                bail!("--options names `{name}` twice")
            }
            all.push(found);
        }
        Ok(all)
    }

    /// What the optimization sets for a plan, or why it changes nothing.
    pub(crate) fn of(self, plan: &Plan, work: Work, facts: &Facts<'_>) -> Result<Switched, String> {
        let backend = facts.selection.id.backend;
        let key = |key: &str, off: &str, on: &str| Ok(self.by_key(key, off, on));
        match self {
            Self::Kernels if facts.runs_kernels => Ok(Switched {
                switch: self,
                off: Setting { plain: true, ..Setting::default() },
                on: Setting::default(),
                words: "burn's operations → our kernels".to_owned(),
            }),
            Self::Kernels => Err(format!("there are no kernels for {}", facts.selection.id)),
            Self::Threads if !facts.applied.rayon => {
                Err("this build has no threads, the feature `rayon` is off".to_owned())
            }
            Self::Threads if facts.threads < 2 => Err("there is one processor".to_owned()),
            Self::Threads => {
                let of = |threads| Setting { threads: Some(threads), ..Setting::default() };
                let words = format!("1 → {}", facts.threads);
                Ok(Switched { switch: self, off: of(1), on: of(facts.threads), words })
            }
            Self::Precision => {
                let own = plan.precision;
                let has_no_products = facts.multiplies_bf16 == Some(false);
                let on = match (own, Policy::of_device(facts.device).0) {
                    (Policy::BF16_PRODUCTS, _) if has_no_products => {
                        return Err("no layer of the network multiplies bf16".to_owned());
                    }
                    (Policy::F32, Policy::BF16_PRODUCTS) if has_no_products => Policy::BF16_MIXED,
                    (Policy::F32, Policy::F32) => Policy::BF16_MIXED,
                    (Policy::F32, of_device) => of_device,
                    _ => own,
                };
                on.check_device(facts.device).map_err(|error| error.to_string())?;
                key("precision", "\"f32\"", &format!("\"{on}\""))
            }
            Self::Workers => match plan.train.workers {
                WorkersPlan::Auto | WorkersPlan::Count(0) => key("train.workers", "0", "\"auto\""),
                WorkersPlan::Count(count) => key("train.workers", "0", &count.to_string()),
            },
            Self::Cache => self.cache(plan),
            Self::Transfer | Self::Recompute if work == Work::Inference => {
                Err("there is no backward pass".to_owned())
            }
            Self::Transfer if backend == Backend::Flex => {
                Err("batches are in the memory of flex already".to_owned())
            }
            Self::Transfer => key("train.transfer", "\"when-used\"", "\"ahead\""),
            Self::Batch => {
                let own = plan.train.batch;
                let most = facts.train_samples.unwrap_or(4 * own);
                let on = (4 * own).min(most - most % own.max(1));
                match on < 2 * own {
                    true => Err(format!("there are only {most} training samples")),
                    false => key("train.batch", &own.to_string(), &on.to_string()),
                }
            }
            Self::Recompute => {
                let on = match plan.train.recompute {
                    RecomputePlan::Segments => "\"segments\"",
                    RecomputePlan::None | RecomputePlan::ElementWise => "\"element-wise\"",
                };
                key("train.recompute", "\"none\"", on)
            }
            Self::Fusion | Self::Autotune if backend == Backend::Flex => {
                Err("flex does not have it".to_owned())
            }
            Self::Fusion | Self::Autotune => {
                let is_on = match self {
                    Self::Fusion => facts.applied.fusion,
                    _ => facts.applied.autotune,
                };
                let state = if is_on { "on" } else { "off" };
                Err(format!("it is {state} in this build: a cargo feature decides, not a run"))
            }
        }
    }

    /// Of the key of the task that keeps data in memory.
    fn cache(self, plan: &Plan) -> Result<Switched, String> {
        let data = plan.table().get("data").and_then(Value::as_table);
        let value = |name: &str| data.and_then(|data| data.get(name));
        let is_generated =
            value("dir").is_none() && value("train").is_none() && value("files").is_none();
        match (value("cache"), value("memory_mib")) {
            (Some(own), _) => {
                let none = "{ kind = \"none\" }";
                let kind = own.get("kind").and_then(Value::as_str);
                let on = match kind {
                    Some("none") | None if tolerates_faults(data) || crops_pictures(plan) => {
                        "{ kind = \"memory\" }".into()
                    }
                    Some("none") | None => "{ kind = \"whole\" }".into(),
                    Some(_) => own.to_string(),
                };
                Ok(self.by_key("data.cache", none, &on))
            }
            (None, Some(_)) if is_generated => Err("generated data is in memory".to_owned()),
            (None, Some(own)) => {
                let on = own.as_integer().filter(|mib| *mib > 0).unwrap_or(4096);
                Ok(self.by_key("data.memory_mib", "0", &on.to_string()))
            }
            (None, None) => Err("the data is in memory".to_owned()),
        }
    }

    fn by_key(self, key: &str, off: &str, on: &str) -> Switched {
        let of = |value| Setting { sets: vec![format!("{key}={value}")], ..Setting::default() };
        let words = format!("{} → {} ({key})", bare(off), bare(on));
        Switched { switch: self, off: of(off), on: of(on), words }
    }
}

/// Whether random parts of whole pictures are trained on, which have no common size.
fn crops_pictures(plan: &Plan) -> bool {
    let value = |section: &str, key: &str| plan.table().get(section)?.get(key);
    let resize = value("data", "resize").and_then(|resize| resize.get("kind")?.as_str());
    resize.is_some_and(|kind| kind != "stretch")
        && value("augment", "random_resized_crop").is_some()
}

fn tolerates_faults(data: Option<&Table>) -> bool {
    let faults = data.and_then(|data| data.get("faults")).and_then(|faults| faults.get("kind"));
    faults.and_then(Value::as_str).is_some_and(|kind| kind != "raise")
}

/// A value without the quotes of TOML.
fn bare(value: &str) -> String {
    let kind = value.strip_prefix("{ kind = ").and_then(|rest| rest.strip_suffix(" }"));
    kind.unwrap_or(value).replace('"', "")
}
