//! Distillation: a student learns from the logits of a trained network.

use std::cell::OnceCell;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor};

use super::data_plan::DataPlan;
use super::other_run::OtherRun;
use crate::config::{ABOVE_0_IN_F32, ConfigError, Key, Keys, Settings, is_above_0_in_f32};
use crate::error::RunError;
use crate::folder::RunFolder;

const TEACHER: Key<PathBuf> = Key::new(
    "train.teacher",
    "a run of the same classes and images, whose served network the model also learns from: distillation",
)
.check("a path", |path| !path.as_os_str().is_empty());
const TEMPERATURE: Key<f64> = Key::new(
    "train.temperature",
    "what the logits of teacher and model are divided by before their probabilities are compared",
)
.default("4.0")
.check(ABOVE_0_IN_F32, is_above_0_in_f32)
.decided_by(&["train.teacher"]);
const SOFT_SHARE: Key<f64> = Key::new(
    "train.soft_share",
    "the share of the teacher's probabilities in the loss; the rest is `train.loss` of the labels",
)
.default("0.5")
.check("0 to 1", |share| (0.0..=1.0).contains(share))
.decided_by(&["train.teacher"]);

/// The file of a run with the hash of its teacher's weights.
const FILE: &str = "teacher.json";

/// The keys of distillation.
pub(super) const KEYS: Keys = &[&TEACHER, &TEMPERATURE, &SOFT_SHARE];

/// The logits of images, `[batch, 3, height, width]` to `[batch, classes]`, without a graph.
pub(super) type Logits = Box<dyn Fn(Tensor<4>) -> Tensor<2>>;

/// A teacher, and how its answers enter the loss.
#[derive(Clone)]
pub(super) struct Distillation {
    run: PathBuf,
    temperature: f64,
    soft_share: f64,
    /// Loaded when the training data is opened; evaluations do without.
    logits: Rc<OnceCell<Logits>>,
    /// The hash of the loaded network.
    fingerprint: Rc<OnceCell<String>>,
    /// The folder of the run that is continued.
    continued: Rc<OnceCell<PathBuf>>,
}

impl fmt::Debug for Distillation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distillation")
            .field("run", &self.run)
            .field("temperature", &self.temperature)
            .field("soft_share", &self.soft_share)
            .finish_non_exhaustive()
    }
}

impl Distillation {
    /// Checks, without data, that the teacher exists and sees images as the student does.
    pub(super) fn find(&self, own: &DataPlan) -> Result<(), RunError> {
        OtherRun::find(&TEACHER, &self.run, own).map(drop)
    }

    /// Reads the keys, if there is a teacher.
    pub(super) fn read(settings: &Settings) -> Result<Option<Self>, ConfigError> {
        let Some(run) = settings.option(&TEACHER)? else {
            let train = settings.given().get("train");
            let is_given = |key: &&str| train.is_some_and(|train| train.get(*key).is_some());
            if let Some(key) = ["temperature", "soft_share"].into_iter().find(is_given) {
                settings.required(&TEACHER, format!("`train.{key}`"))?;
            }
            return Ok(None);
        };
        Ok(Some(Self {
            run,
            temperature: settings.value(&TEMPERATURE)?,
            soft_share: settings.value(&SOFT_SHARE)?,
            logits: Rc::default(),
            fingerprint: Rc::default(),
            continued: Rc::default(),
        }))
    }

    /// Checks that the teacher knows these classes, and sees images as the student does.
    pub(super) fn check(&self, own: &DataPlan, classes: &[String]) -> Result<(), RunError> {
        OtherRun::open(&TEACHER, &self.run)?.check(own, classes)
    }

    /// Stores which network teaches the run of a folder, after it was loaded.
    pub(super) fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        match self.fingerprint.get() {
            Some(fingerprint) => folder.write_bound_json(FILE, fingerprint),
            None => Ok(()),
        }
    }

    /// Sets the run that [`load`](Self::load) compares the teacher with.
    pub(super) fn continues(&self, folder: &RunFolder) {
        // The same folder, if it was set already.
        let _ = self.continued.set(folder.path().to_owned());
    }

    /// Loads the teacher on a device without autodiff, after a [`check`](Self::check).
    ///
    /// # Errors
    /// [`RunError::Unusable`] for another teacher than the one that the run began with.
    pub(super) fn load(
        &self,
        device: &Device,
        own: &DataPlan,
        classes: &[String],
    ) -> Result<(), RunError> {
        if self.logits.get().is_some() {
            return Ok(());
        }
        let other = OtherRun::open(&TEACHER, &self.run)?;
        other.check(own, classes)?;
        let fingerprint = other.fingerprint()?;
        if let Some(run) = self.continued.get().filter(|run| run.join(FILE).exists())
            && RunFolder::open(run)?.read_bound_json::<String>(FILE)? != fingerprint
        {
            let expected = "the one that this run began with, for it to continue as it would have: \
                            put that back, or begin a new run";
            return Err(other.refuse("a network of other weights", expected));
        }
        let logits = other.plan.task.teacher(&other.plan, &other.folder, device)?;
        // Nothing else sets them in between.
        let _ = self.fingerprint.set(fingerprint);
        let _ = self.logits.set(logits);
        Ok(())
    }

    /// The teacher's logits; `None` if it was not loaded.
    pub(super) fn answer(&self, images: &Tensor<4>) -> Option<Tensor<2>> {
        self.logits.get().map(|logits| logits(images.clone().without_autodiff()))
    }

    /// `(1 − s)·hard + s·T²·KL(teacher ‖ student)`, with probabilities at the temperature `T`.
    ///
    /// The factor keeps the size of the gradients, which shrink by `1/T²`.
    ///
    /// # Source
    /// Hinton, Vinyals, Dean 2015, arXiv:1503.02531, section 2.
    pub(super) fn mixed(
        &self,
        hard: Tensor<1>,
        student: Tensor<2>,
        teacher: Tensor<2>,
    ) -> Tensor<1> {
        let Self { temperature, soft_share, .. } = *self;
        let teacher = teacher.div_scalar(temperature);
        let shares = softmax(teacher.clone(), 1);
        let distance = log_softmax(teacher, 1) - log_softmax(student.div_scalar(temperature), 1);
        let divergence = (shares * distance).sum_dim(1).mean();
        hard.mul_scalar(1.0 - soft_share)
            + divergence.mul_scalar(soft_share * temperature * temperature)
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, autodiff_devices};

    use super::*;

    #[test]
    fn the_loss_is_the_mixture_of_the_paper() {
        for device in autodiff_devices() {
            let distillation = Distillation {
                run: PathBuf::new(),
                temperature: 2.0,
                soft_share: 0.25,
                logits: Rc::default(),
                fingerprint: Rc::default(),
                continued: Rc::default(),
            };
            let of = |rows: [[f32; 2]; 2]| Tensor::<2>::from_floats(rows, &device);
            let (student, teacher) = (of([[0.0, 2.0], [1.0, 1.0]]), of([[2.0, 0.0], [1.0, 1.0]]));
            let hard = Tensor::<1>::from_floats([3.0], &device);
            let loss = distillation.mixed(hard.clone(), student.clone(), teacher.clone());
            // At T = 2 the first rows are (σ(1), σ(−1)) and its mirror: their divergence is
            // σ(1) − σ(−1), and the second rows agree.
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let divergence = (sigmoid(1.0) - sigmoid(-1.0)) / 2.0;
            let right = 0.75 * 3.0 + 0.25 * 4.0 * divergence;
            assert!((loss.numbers()[0] - right).abs() < 1e-5, "{} {right}", loss.numbers()[0]);
            // The same logits have no distance and no gradient.
            let student = teacher.clone().detach().require_grad();
            let loss = distillation.mixed(hard, student.clone(), teacher);
            assert!((loss.numbers()[0] - 2.25).abs() < 1e-6);
            let gradient = student.grad(&loss.backward()).expect("on the graph").numbers();
            assert!(gradient.iter().all(|value| value.abs() < 1e-6), "{gradient:?}");
        }
    }
}
