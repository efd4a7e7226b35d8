//! The keys of `augment`: random transforms of training patches.

use std::sync::Arc;

use updraft_data::{
    Augment, Axis, Elastic, Flip, Intensity, Noise, PixelType, QuarterTurn, RasterSpec,
};

use super::data_plan::DataPlan;
use crate::config::{ConfigError, Edit, Key, Keys, Settings};

const FLIP: Key<bool> = Key::new("augment.flip", "mirror half of the patches along each axis")
    .default("false")
    .edit(Edit::Reported);
const QUARTER_TURN: Key<bool> =
    Key::new("augment.quarter_turn", "turn patches of equal height and width by 0 to 3 quarters")
        .default("false")
        .edit(Edit::Reported);
const INTENSITY: Key<Intensity> = Key::new(
    "augment.intensity",
    "`scale` and `shift`: the strongest change of contrast (0 to 1) and brightness (0 to 10) of an input, after its normalization",
)
.edit(Edit::Reported);
const NOISE: Key<Noise> = Key::new(
    "augment.noise",
    "`std`: the largest standard deviation of noise added to an input, after its normalization",
)
.edit(Edit::Reported);
const ELASTIC: Key<Elastic> = Key::new(
    "augment.elastic",
    "`max_pixels` and `grid_pixels`: random elastic deformation, with the target",
)
.edit(Edit::Reported);

/// The keys of `augment`.
pub(in crate::task) const KEYS: Keys = &[&FLIP, &QUARTER_TURN, &INTENSITY, &NOISE, &ELASTIC];

/// The same for images that are their own target: noise would have to be predicted.
pub(in crate::task) const UNPAIRED_KEYS: Keys = &[&FLIP, &QUARTER_TURN, &INTENSITY, &ELASTIC];

/// Random transforms of training patches.
#[derive(Debug, Clone)]
pub(in crate::task) struct AugmentPlan {
    keyed: Vec<(&'static str, Arc<dyn Augment>)>,
}

impl AugmentPlan {
    /// Reads every key.
    pub(in crate::task) fn read(settings: &Settings, data: &DataPlan) -> Result<Self, ConfigError> {
        let mut keyed: Vec<(&'static str, Arc<dyn Augment>)> = Vec::new();
        if settings.value(&FLIP)? {
            let axes = [Axis::Depth, Axis::Height, Axis::Width];
            for axis in axes.into_iter().skip(3 - data.patch.len()) {
                keyed.push(("augment.flip", Arc::new(Flip { axis })));
            }
        }
        if settings.value(&QUARTER_TURN)? {
            keyed.push(("augment.quarter_turn", Arc::new(QuarterTurn)));
        }
        if let Some(elastic) = settings.option(&ELASTIC)? {
            keyed.push(("augment.elastic", Arc::new(elastic)));
        }
        if let Some(intensity) = settings.option(&INTENSITY)? {
            keyed.push(("augment.intensity", Arc::new(intensity)));
        }
        if let Some(noise) = settings.option(&NOISE)? {
            keyed.push(("augment.noise", Arc::new(noise)));
        }
        let (height, width) = match data.patch[..] {
            [height, width] | [_, height, width] => (height, width),
            _ => (1, 1),
        };
        let depth = (data.patch.len() == 3).then(|| data.patch[0]);
        let patch = RasterSpec { pixel_type: PixelType::F32, channels: 1, depth, height, width };
        for (key, transform) in &keyed {
            transform.validate(&patch).map_err(|error| settings.refuse_data(key, &error))?;
        }
        Ok(Self { keyed })
    }

    /// The transforms in the order in which they are applied.
    pub(in crate::task) fn transforms(&self) -> Vec<Arc<dyn Augment>> {
        self.keyed.iter().map(|(_, transform)| transform.clone()).collect()
    }
}
