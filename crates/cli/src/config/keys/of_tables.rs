//! What regression on tables reads beside keys of all tasks, or takes another default for.

use super::{Key, Shown};

/// Settings with which rows come from files.
const FILES: &str = r#"data = { source = "files", files = ["a"], target = "y", features = ["x"] }"#;

pub(super) const OF_TABLES: &[Key] = &[
    Key { names: &["data.source"], default: Shown::Plan, meaning: "`formula` or `files`" },
    Key {
        names: &["data.formula"],
        default: Shown::Plan,
        meaning: "or `friedman1`, `product`: what `updraft_data::Formula` names so",
    },
    Key {
        names: &["data.noise"],
        default: Shown::Plan,
        meaning: "formula only: standard deviation of what is added to the values of training rows",
    },
    Key {
        names: &["data.train_rows", "data.test_rows"],
        default: Shown::Plan,
        meaning: "formula only",
    },
    Key {
        names: &["data.files"],
        default: Shown::Plan,
        meaning: "files only: one or several, of the same columns",
    },
    Key { names: &["data.dir", "data.how_to_get"], default: Shown::Plan, meaning: "as above" },
    Key {
        names: &["data.delimiter"],
        default: Shown::Beside(FILES),
        meaning: "or `semicolon`, `tab`",
    },
    Key {
        names: &["data.columns"],
        default: Shown::Plan,
        meaning: "the names of all columns, where the first line is a row already",
    },
    Key { names: &["data.target"], default: Shown::Plan, meaning: "the column to be told" },
    Key {
        names: &["data.features"],
        default: Shown::Told("every other one of `data.columns`"),
        meaning: "the columns it is told from, numbers all; a missing one counts as its mean",
    },
    Key {
        names: &["data.file_features"],
        default: Shown::Beside(FILES),
        meaning: "adds a feature for each file but the first: 1 for its own rows",
    },
    Key {
        names: &["data.test_fraction"],
        default: Shown::Beside(FILES),
        meaning: "share of the rows held out, the same in each tenth of the target's values",
    },
    Key {
        names: &["model.kind"],
        default: Shown::Plan,
        meaning: "or `mlp`: linear layers with SiLU between them",
    },
    Key {
        names: &["model.hidden"],
        default: Shown::Told("`[8]`, of an MLP `[32, 32]`"),
        meaning: "features between the layers",
    },
    Key {
        names: &["model.intervals"],
        default: Shown::Plan,
        meaning: "kan only: pieces of each spline",
    },
    Key { names: &["model.degree"], default: Shown::Plan, meaning: "kan only: their degree" },
    Key {
        names: &["model.domain"],
        default: Shown::Plan,
        meaning: "kan only: splines reach so far to both sides of 0",
    },
    Key {
        names: &["model.outside"],
        default: Shown::Plan,
        meaning: "kan only: or `clamp`, `extend`, what splines are beyond",
    },
    Key {
        names: &["train.epochs"],
        default: Shown::Plan,
        meaning: "passes over the training rows",
    },
    Key { names: &["train.learning_rate"], default: Shown::Plan, meaning: "the schedule's peak" },
    Key { names: &["train.schedule"], default: Shown::Plan, meaning: "as above" },
    Key { names: &["train.optimizer"], default: Shown::Plan, meaning: "as above" },
    Key { names: &["train.criterion"], default: Shown::Plan, meaning: "or `train-loss`" },
];
