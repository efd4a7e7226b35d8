//! The keys of `data`: the source of volumes, their patches and their normalization.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use updraft_data::{
    CellsConfig, Foreground, OpenConfig, PageAxis, PatchConfig, VolumeScale, VolumeSource,
    VolumeTarget,
};

use crate::config::{ConfigError, Edit, Key, Keys, Settings, TrainPlan};
use crate::error::RunError;
use crate::task::data_folder::DataFolder;

const DECIDED_BY_TARGET: &[&str] = &["data.target"];

const TARGET: Key<TargetKind> =
    Key::new("data.target", "`labels`, a mask; `image`, another image; `input`, the image itself")
        .default(r#""labels""#);
const DIR: Key<PathBuf> = Key::new(
    "data.dir",
    "the data folder; `--data` takes precedence; without it, cells are generated",
)
.edit(Edit::Free);
const HOW_TO_GET: Key<String> =
    Key::new("data.how_to_get", "printed when the data is missing").edit(Edit::Free);
const MANIFEST: Key<PathBuf> = Key::new(
    "data.manifest",
    "a CSV or TSV file in the data folder that lists volumes, with the columns `input` (or `input.NAME` a channel), `target` or `labels`, and `split`, `position`, `t`, `z`, `y`, `x` where needed",
)
.default(r#""volumes.csv""#)
.edit(Edit::Reported)
.check("the name of a file", |manifest| !manifest.as_os_str().is_empty());
const TRAIN_SPLIT: Key<String> =
    Key::new("data.train_split", "the value of the manifest's column `split` for training data")
        .default(r#""train""#)
        .edit(Edit::Reported);
const TEST_SPLIT: Key<String> =
    Key::new("data.test_split", "the same for test data").default(r#""test""#).edit(Edit::Reported);
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "fraction of positions held out if the manifest has no column `split`",
)
.default("0.2")
.edit(Edit::Reported)
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0);
const PAGES: Key<PageAxis> = Key::new(
    "data.pages",
    "the meaning of the pages of a TIFF whose header does not say it: `depth`, `frames` or `channels`",
)
.default(r#""depth""#);
const CLASSES: Key<usize> = Key::new(
    "data.classes",
    "labels only: number of classes of the mask, including the background",
)
.default("3")
.check("2 to 4096", |classes| (2..=4096).contains(classes))
.decided_by(&["data.target", "data.labels"]);
const LABELS: Key<LabelKind> = Key::new(
    "data.labels",
    "labels only: `classes`, or `foreground` where every label above 0 is the class 1",
)
.default(r#""classes""#)
.decided_by(DECIDED_BY_TARGET);
const PATCH: Key<Vec<usize>> = Key::new(
    "data.patch",
    "rows and columns of a training patch, or slices, rows and columns; patches with two sides are taken from slices of a stack",
)
.default("[64, 64]")
.check("2 or 3 sides from 8 to 4096, slices from 1", |sides| {
    let plane = sides.iter().rev().take(2).all(|side| (8..=4096).contains(side));
    matches!(sides.len(), 2 | 3) && plane && (1..=4096).contains(&sides[0])
});
const PATCHES: Key<usize> = Key::new("data.patches", "patches of each volume in an epoch")
    .default("64")
    .edit(Edit::Reported)
    .check("1 to 16777216", |patches| (1..=1 << 24).contains(patches));
const FOREGROUND: Key<Centering> = Key::new(
    "data.foreground",
    "`share` of the patches that are centered on a position of the target above `above` (0); without it every position is equally likely",
)
.edit(Edit::Reported)
.decided_by(DECIDED_BY_TARGET);
const SCALE: Key<Scale> = Key::new(
    "data.scale",
    "normalization of each channel by its own volume: `z-score`, `unit` for values divided by the largest of their type, or `percentile` with `low` and `high`",
)
.default(r#"{ kind = "z-score" }"#);
const SCALE_TARGET: Key<Scale> =
    Key::new("data.scale_target", "the same for targets that are images")
        .default(r#"{ kind = "z-score" }"#)
        .decided_by(DECIDED_BY_TARGET);
const MEMORY: Key<u64> = Key::new(
    "data.memory_mib",
    "MiB of volumes that are loaded into memory; the others are read region by region",
)
.default("4096")
.edit(Edit::Free)
.performance()
.check("0 to 1048576", |mib| *mib <= 1 << 20);
const NOISE: Key<f64> = Key::new(
    "data.noise",
    "input only: standard deviation of the noise that is added to inputs, which the network learns to remove; a test window has the same noise in every run",
)
.default("0.0")
.edit(Edit::Reported)
.check("0 to 10", |sigma| (0.0..=10.0).contains(sigma))
.decided_by(DECIDED_BY_TARGET);
const SIDES: Key<Vec<usize>> = Key::new("data.sides", "generated only: the sides of a field")
    .depends("256 × 256, or 24 × 96 × 96 for patches of three sides, and at least the patch")
    .check("2 or 3 sides from 16 to 1024, slices from 1", |sides| {
        let plane = sides.iter().rev().take(2).all(|side| (16..=1024).contains(side));
        matches!(sides.len(), 2 | 3) && plane && (1..=1024).contains(&sides[0])
    });
const TRAIN_FIELDS: Key<usize> = Key::new("data.train_fields", "generated only")
    .default("8")
    .edit(Edit::Reported)
    .check("1 to 10000", |fields| (1..=10_000).contains(fields));
const TEST_FIELDS: Key<usize> = Key::new("data.test_fields", "generated only")
    .default("2")
    .edit(Edit::Reported)
    .check("1 to 10000", |fields| (1..=10_000).contains(fields));

/// Voxels of all generated fields, each of which takes some tens of bytes while it is drawn.
const MOST_VOXELS: usize = 1 << 28;

/// The keys of `data`.
pub(in crate::task) const KEYS: Keys = &[
    &TARGET,
    &DIR,
    &HOW_TO_GET,
    &MANIFEST,
    &TRAIN_SPLIT,
    &TEST_SPLIT,
    &TEST_FRACTION,
    &PAGES,
    &CLASSES,
    &LABELS,
    &PATCH,
    &PATCHES,
    &FOREGROUND,
    &SCALE,
    &SCALE_TARGET,
    &MEMORY,
    &NOISE,
    &SIDES,
    &TRAIN_FIELDS,
    &TEST_FIELDS,
];

/// The same for images without targets.
pub(in crate::task) const UNPAIRED_KEYS: Keys = &[
    &DIR,
    &HOW_TO_GET,
    &MANIFEST,
    &TRAIN_SPLIT,
    &TEST_SPLIT,
    &TEST_FRACTION,
    &PAGES,
    &PATCH,
    &PATCHES,
    &SCALE,
    &MEMORY,
    &SIDES,
    &TRAIN_FIELDS,
    &TEST_FIELDS,
];

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::task) enum TargetKind {
    /// A mask.
    Labels,
    /// Another image.
    Image,
    /// The input.
    Input,
}

/// The meaning of a mask's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::task) enum LabelKind {
    /// Classes.
    Classes,
    /// Objects: labels above 0 are class 1.
    Foreground,
}

/// Where patches are centered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::task) struct Centering {
    share: f32,
    #[serde(default)]
    above: f32,
}

/// A normalization of volumes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::task) enum Scale {
    Unit,
    ZScore,
    Percentile { low: f64, high: f64 },
}

impl From<Scale> for VolumeScale {
    fn from(scale: Scale) -> Self {
        match scale {
            Scale::Unit => Self::Unit,
            Scale::ZScore => Self::ZScore,
            Scale::Percentile { low, high } => Self::Percentile { low, high },
        }
    }
}

/// The source of volumes, their patches and their normalization.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::task) struct DataPlan {
    pub(in crate::task) target: TargetKind,
    /// Whether samples have no target.
    is_unpaired: bool,
    pub(in crate::task) dir: Option<PathBuf>,
    pub(in crate::task) how_to_get: Option<String>,
    pub(in crate::task) manifest: PathBuf,
    pub(in crate::task) splits: [String; 2],
    pub(in crate::task) test_fraction: f64,
    pub(in crate::task) pages: PageAxis,
    /// Classes of masks.
    pub(in crate::task) classes: usize,
    pub(in crate::task) labels: LabelKind,
    /// The sides of a patch.
    pub(in crate::task) patch: Vec<usize>,
    pub(in crate::task) patches: usize,
    foreground: Option<Centering>,
    pub(in crate::task) scale: Scale,
    pub(in crate::task) scale_target: Scale,
    memory_mib: u64,
    /// The standard deviation of the noise that is added to inputs.
    pub(in crate::task) noise: f64,
    pub(in crate::task) sides: Vec<usize>,
    pub(in crate::task) train_fields: usize,
    pub(in crate::task) test_fields: usize,
    /// Samples a step, unless they are searched for.
    pub(in crate::task) batch: Option<usize>,
}

impl DataPlan {
    pub(in crate::task) fn read(
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Self, ConfigError> {
        let target = settings.value(&TARGET)?;
        let is_own = target == TargetKind::Input;
        let noise = if is_own { settings.value(&NOISE)? } else { 0.0 };
        Ok(Self { noise, ..Self::read_with(settings, train, target)? })
    }

    /// Reads [`UNPAIRED_KEYS`]: samples without targets.
    pub(in crate::task) fn read_unpaired(
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Self, ConfigError> {
        Ok(Self { is_unpaired: true, ..Self::read_with(settings, train, TargetKind::Input)? })
    }

    fn read_with(
        settings: &Settings,
        train: &TrainPlan,
        target: TargetKind,
    ) -> Result<Self, ConfigError> {
        let patch = settings.value(&PATCH)?;
        let labels = match target {
            TargetKind::Labels => settings.value(&LABELS)?,
            TargetKind::Image | TargetKind::Input => LabelKind::Classes,
        };
        let classes = match (target, labels) {
            (TargetKind::Labels, LabelKind::Classes) => settings.value(&CLASSES)?,
            _ => 2,
        };
        let smallest: &[usize] = if patch.len() == 2 { &[256, 256] } else { &[24, 96, 96] };
        let own_sides =
            smallest.iter().zip(&patch).map(|(&side, &patch)| side.max(patch)).collect();
        let scale = settings.value(&SCALE)?;
        let scale_target = match target {
            TargetKind::Image => settings.value(&SCALE_TARGET)?,
            TargetKind::Input => scale,
            TargetKind::Labels => Scale::Unit,
        };
        let plan = Self {
            dir: settings.option(&DIR)?,
            how_to_get: settings.option(&HOW_TO_GET)?,
            manifest: settings.value(&MANIFEST)?,
            splits: [settings.value(&TRAIN_SPLIT)?, settings.value(&TEST_SPLIT)?],
            test_fraction: settings.value(&TEST_FRACTION)?,
            pages: settings.value(&PAGES)?,
            patches: settings.value(&PATCHES)?,
            foreground: match target {
                TargetKind::Input => None,
                TargetKind::Labels | TargetKind::Image => settings.option(&FOREGROUND)?,
            },
            memory_mib: settings.value(&MEMORY)?,
            noise: 0.0,
            sides: settings.value_or(&SIDES, || own_sides)?,
            train_fields: settings.value(&TRAIN_FIELDS)?,
            test_fields: settings.value(&TEST_FIELDS)?,
            batch: train.auto_batch.is_none().then_some(train.batch),
            target,
            is_unpaired: false,
            classes,
            labels,
            patch,
            scale,
            scale_target,
        };
        plan.check(settings)?;
        Ok(plan)
    }

    fn check(&self, settings: &Settings) -> Result<(), ConfigError> {
        for (key, scale) in [("data.scale", self.scale), ("data.scale_target", self.scale_target)] {
            let checked = VolumeScale::from(scale).validate();
            checked.map_err(|error| settings.refuse_data(key, &error))?;
        }
        if let Some(Centering { share, above }) = self.foreground {
            if !(0.0..=1.0).contains(&share) {
                return Err(settings.refuse("data.foreground.share", share, "0 to 1"));
            }
            if !above.is_finite() {
                return Err(settings.refuse("data.foreground.above", above, "a finite number"));
            }
        }
        if self.dir.is_some() {
            return Ok(());
        }
        // A patch with two sides is taken from a picture or from a slice of a stack.
        let sides = self.sides.iter().rev().zip(self.patch.iter().rev());
        let fits = sides.clone().all(|(side, patch)| patch <= side);
        if !fits || self.sides.len() < self.patch.len() {
            let expected = format!("at least the sides of a patch, {:?}", self.patch);
            return Err(settings.refuse("data.sides", format!("{:?}", self.sides), expected));
        }
        let field = self.sides.iter().fold(1_usize, |all, side| all.saturating_mul(*side));
        if field.saturating_mul(self.train_fields + self.test_fields) > MOST_VOXELS {
            let expected = format!(
                "sides of which {} fields have at most {MOST_VOXELS} voxels: they are drawn into \
                 memory",
                self.train_fields + self.test_fields
            );
            return Err(settings.refuse("data.sides", format!("{:?}", self.sides), expected));
        }
        Ok(())
    }

    /// The manifest, if there is a data folder; `dir` takes precedence over the plan's.
    pub(in crate::task) fn find(&self, dir: Option<&Path>) -> Result<Option<PathBuf>, RunError> {
        let Some(dir) = dir.or(self.dir.as_deref()) else {
            self.check_generated()?;
            return Ok(None);
        };
        let folder = DataFolder { dir: Some(dir), how_to_get: self.how_to_get.as_deref() };
        Ok(folder.find(&[&self.manifest])?.pop())
    }

    /// The target of an image that has no other.
    pub(in crate::task) fn own_target(&self, input: &Arc<dyn VolumeSource>) -> VolumeTarget {
        if self.is_unpaired { VolumeTarget::None } else { VolumeTarget::Image(input.clone()) }
    }

    /// The generated cells that are used without a data folder.
    pub(in crate::task) fn cells(&self, seed: u64) -> CellsConfig {
        CellsConfig { sides: self.sides.clone(), seed }
    }

    pub(in crate::task) fn open_config(&self) -> OpenConfig {
        OpenConfig { pages: self.pages, series: 0 }
    }

    /// The settings of patches; masks of objects have any labels.
    pub(in crate::task) fn patch_config(&self) -> PatchConfig {
        let config = PatchConfig::new(&self.patch, self.patches)
            .with_scales(self.scale.into(), self.scale_target.into())
            .with_memory_bytes(self.memory_mib << 20);
        let config = match self.foreground {
            None => config,
            Some(Centering { share, above }) => config.with_foreground(Foreground { share, above }),
        };
        match (self.target, self.labels) {
            (TargetKind::Labels, LabelKind::Classes) => config.with_classes(self.classes),
            _ => config,
        }
    }
}
