//! How images get the size of the configuration.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use updraft_data::{CenterCropped, DataError, Image, ImageSource};

use crate::config::{ConfigError, Key, Settings};

pub(super) const RESIZE: Key<ResizePlan> = Key::new(
    "data.resize",
    "or `center-crop` with `factor` (1.143): the shorter side is resized to `factor` times that of the image, the ratio of sides stays, and the center is cut out. `augment.random_resized_crop` then takes parts of whole pictures, which needs `data.cache` `memory` or `none`",
)
.default(r#"{ kind = "stretch" }"#);

/// How images get the size of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ResizePlan {
    // Not a unit variant: serde would ignore keys next to its `kind`.
    /// Height and width are resized each.
    Stretch {},
    /// The image is resized to cover `factor` times the size, and its center is cut out.
    CenterCrop {
        #[serde(default = "default_factor")]
        factor: f64,
    },
}

/// 256 pixels for 224, as published evaluations on `ImageNet` resize the shorter side.
fn default_factor() -> f64 {
    1.143
}

impl ResizePlan {
    /// Reads the key.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let plan = settings.value(&RESIZE)?;
        if let Self::CenterCrop { factor } = plan
            && !(1.0..=CenterCropped::MOST_FACTOR).contains(&factor)
        {
            let expected = format!("1 to {}", CenterCropped::MOST_FACTOR);
            return Err(settings.refuse("data.resize.factor", factor, expected));
        }
        Ok(plan)
    }

    /// An image at the size, which is height and width.
    pub(super) fn fit<'a>(&self, image: Image<'a>, (height, width): (usize, usize)) -> Image<'a> {
        match *self {
            Self::Stretch {} => image.resize(height, width),
            Self::CenterCrop { factor } => image.center_crop(height, width, factor),
        }
    }

    /// The same for all images of a source; a stretched source is returned as it is, because every
    /// cache stretches.
    pub(super) fn cut(
        &self,
        source: Arc<dyn ImageSource>,
        (height, width): (usize, usize),
    ) -> Result<Arc<dyn ImageSource>, DataError> {
        Ok(match *self {
            Self::Stretch {} => source,
            Self::CenterCrop { factor } => {
                Arc::new(CenterCropped::try_new(source, height, width, factor)?)
            }
        })
    }
}
