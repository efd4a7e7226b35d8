//! The runs that are disturbed: a task's trial, extended, with a checkpoint every second update.

use std::path::Path;

use anyhow::Result;
use updraft_run::{Ability, Plan, Registry, TaskKind};

/// Settings of every run: about fifty updates, so that one run can be killed many times.
const LONG: [&str; 5] = [
    "train.epochs=12",
    "train.checkpoint_every_steps=2",
    "train.keep_checkpoints=2",
    "train.keep_best=1",
    "train.workers=0",
];

/// Settings that differ between runs of the same task.
pub(crate) struct Variant {
    name: &'static str,
    settings: &'static [&'static str],
    /// Whether the data stays on the device, for the tasks that support it.
    is_resident: bool,
}

/// The precisions, each with other settings that a resumed run must restore, and data that stays on
/// the device with updates that are read together.
pub(crate) const VARIANTS: [Variant; 4] = [
    Variant {
        name: "f32 EMA",
        settings: &["precision=f32", "train.ema_decay=0.9"],
        is_resident: false,
    },
    Variant {
        name: "bf16 EMA",
        settings: &["precision=bf16-mixed", "train.ema_decay=0.99"],
        is_resident: false,
    },
    Variant {
        name: "f16 sums",
        settings: &["precision=f16-mixed", "train.accumulate=2"],
        is_resident: false,
    },
    Variant { name: "f32 resident", settings: &["precision=f32", READ_LATE], is_resident: true },
];

/// Reads the numbers of several updates together.
const READ_LATE: &str = "train.read_every=3";

/// Keeps the data on the device.
const RESIDENT: &str = "train.resident={}";

/// A task in a variant.
pub(crate) struct Scenario {
    pub(crate) task: &'static str,
    pub(crate) variant: &'static str,
    /// The plan in TOML, which `train` reads as a config.
    pub(crate) plan: String,
}

impl Scenario {
    pub(crate) fn new(
        registry: Registry,
        kind: &'static dyn TaskKind,
        variant: &'static Variant,
        ranks: usize,
    ) -> Result<Self> {
        let task = format!("task={}", kind.name());
        // Ranks read the numbers of every update.
        let is_single = ranks == 1;
        let of_variant = variant.settings.iter().filter(|it| is_single || **it != READ_LATE);
        let settings = LONG.iter().chain(of_variant).map(|&setting| setting.to_owned());
        let mut settings: Vec<String> = settings.chain([task]).collect();
        let refused = kind.refusals()?;
        // Statistics are recomputed on a single rank only.
        if is_single && !refused.iter().any(|(ability, _)| *ability == Ability::BatchNorms) {
            settings.push("train.recompute_batch_norms=2".to_owned());
        }
        if variant.is_resident && !refused.iter().any(|(ability, _)| *ability == Ability::Resident)
        {
            let overrides = kind.resident_data().iter().copied().chain([RESIDENT]);
            settings.extend(overrides.map(str::to_owned));
        }
        let place = Path::new("the task's trial");
        let plan = Plan::read(registry, kind.trial(), place, &settings)?.plan;
        Ok(Self { task: kind.name(), variant: variant.name, plan: plan.to_toml() })
    }
}

#[cfg(test)]
mod tests {
    use updraft_run::TASKS;

    use super::*;

    #[test]
    fn every_task_has_every_variant() {
        let mut residents = 0;
        for kind in TASKS {
            for variant in &VARIANTS {
                let scenario = Scenario::new(TASKS, *kind, variant, 1).expect("a plan");
                let on_ranks = Scenario::new(TASKS, *kind, variant, 2).expect("a plan");
                for key in ["recompute_batch_norms", "read_every = 3"] {
                    assert!(!on_ranks.plan.contains(key), "{}", on_ranks.plan);
                }
                assert_eq!(scenario.task, kind.name());
                assert!(scenario.plan.contains("checkpoint_every_steps = 2"), "{}", scenario.plan);
                let is_read_late = scenario.plan.contains("read_every = 3");
                assert_eq!(is_read_late, variant.is_resident, "{}", scenario.plan);
                let refused = kind.refusals().expect("what the task refuses");
                let stays = !refused.iter().any(|(ability, _)| *ability == Ability::Resident);
                let is_resident = scenario.plan.contains("[train.resident]");
                assert_eq!(is_resident, variant.is_resident && stays, "{}", scenario.plan);
                residents += usize::from(is_resident);
            }
        }
        assert!(residents > 0, "no task keeps its data on the device");
    }
}
