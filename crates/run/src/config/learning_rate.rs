//! The keys of `train` about the learning rate: its schedule, its reductions, and the optimizer.

use updraft_trainer::{OptimizerConfig, Plateau, Schedule};

use super::key::{Edit, Key};

pub(super) const SCHEDULE: Key<Schedule> = Key::new(
    "train.schedule",
    "or `constant`, `cosine-restarts`, `one-cycle`, `triangular`, `step`, `exponential`: the factor of the learning rate over all steps",
)
.default(r#"{ kind = "warmup-cosine", warmup = 0.2, floor = 0.0 }"#)
.with(&[
    (
        "warmup",
        "0.2, of `one-cycle` and `triangular` 0.3",
        "`warmup-cosine`, `one-cycle` and `triangular`: fraction of all steps with increasing learning rate, at least 0 and below 1",
    ),
    (
        "floor",
        "0, of `one-cycle` 0.000004",
        "`warmup-cosine`, `cosine-restarts`, `one-cycle` and `triangular`: the last factor, 0 to 1",
    ),
    ("cycles", "–", "`cosine-restarts`: number of half cosines, 1 to 1000"),
    ("growth", "2", "`cosine-restarts`: each cycle's length as a multiple of the one before, 1 to 10"),
    ("start", "0.04, of `triangular` 0", "`one-cycle` and `triangular`: the first factor, 0 to 1"),
    ("every_steps", "–", "`step`: steps between two reductions, at least 1"),
    ("factor", "0.1", "`step`: the factor of each reduction, above 0 and at most 1"),
    ("last", "–", "`exponential`: the factor after all steps, above 0 and at most 1"),
]).edit(Edit::Reported);
pub(super) const PLATEAU: Key<Plateau> =
    Key::new("train.plateau", "reduces the learning rate when a metric stops improving")
        .with(&[
            (
                "metric",
                "`train.criterion`",
                "the metric: `test-` or `train-` and a metric of the task",
            ),
            ("factor", "0.1", "what each reduction multiplies it by, above 0 and below 1"),
            (
                "patience",
                "10",
                "epochs without an improvement that are tolerated; one more reduces it",
            ),
            ("threshold", "0.0001", "the smallest improvement that counts, in the metric's unit"),
            ("floor", "0", "the smallest product of all reductions, 0 to 1"),
        ])
        .edit(Edit::Reported);
pub(super) const OPTIMIZER: Key<OptimizerConfig> =
    Key::new("train.optimizer", "or `adam`, or `sgd` with Nesterov momentum")
        .default(r#"{ kind = "adamw", weight_decay = 0.01 }"#)
        .with(&[
            (
                "weight_decay",
                "0.01, of `adam` and `sgd` 0",
                "`adamw`: decoupled, times the learning rate; `adam` and `sgd`: added to the gradient, times the parameter",
            ),
            (
                "betas",
                "[0.9, 0.999]",
                "`adamw`: decays of the first and the second moment, each at least 0 and below 1",
            ),
            ("momentum", "0.9", "`sgd`: at least 0 and below 1"),
            (
                "norm_bias_factor",
                "1",
                "`sgd`: multiplies the learning rate of the biases (β) of normalization layers; their weight decay stays the same; above 0",
            ),
        ])
        .edit(Edit::Reported);
