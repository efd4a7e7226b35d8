//! The sampler of a study: the next point is a function of its seed and its trials.

use super::evolution::Evolution;
use super::grid;
use super::tpe::{Tpe, at_random};
use crate::error::TuneError;
use crate::random::Random;
use crate::settings::{SamplerSettings, StudySettings};
use crate::space::Point;
use crate::trial::TrialRecord;

/// The sampler of a study.
pub(crate) struct Proposer(Kind);

enum Kind {
    Tpe(Tpe),
    Evolution(Evolution),
    Random,
    Grid(Vec<Point>),
}

impl Proposer {
    pub(crate) fn new(settings: &StudySettings) -> Result<Self, TuneError> {
        Ok(Self(match settings.sampler {
            SamplerSettings::Tpe { startup, candidates } => Kind::Tpe(Tpe { startup, candidates }),
            SamplerSettings::Evolution { population } => Kind::Evolution(Evolution { population }),
            SamplerSettings::Random {} => Kind::Random,
            SamplerSettings::Grid { points } => {
                Kind::Grid(grid::points(&settings.space, points, settings.seed)?)
            }
        }))
    }

    /// The point of the next trial; `None` if a grid has no more points.
    pub(crate) fn propose(
        &self,
        settings: &StudySettings,
        trials: &[TrialRecord],
    ) -> Option<Point> {
        let mut random = Random::new(settings.seed, trials.len() as u64);
        let (space, objectives) = (&settings.space, &settings.objectives);
        match &self.0 {
            Kind::Tpe(tpe) => Some(tpe.propose(space, objectives, trials, &mut random)),
            Kind::Evolution(it) => Some(it.propose(space, objectives, trials, &mut random)),
            Kind::Random => Some(at_random(space, &mut random)),
            Kind::Grid(points) => points.get(trials.len()).cloned(),
        }
    }
}
