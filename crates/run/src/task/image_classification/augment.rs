//! The keys of `augment`: random transforms of training images.

use std::sync::Arc;

use updraft_data::{
    AlternatingFlip, Augment, ColorJitter, HorizontalFlip, MixUp, RandomResizedCrop, RasterSpec,
    Rotate, Translate, Zoom,
};

use crate::config::{ConfigError, Edit, Key, Keys, Settings};

const FLIP: Key<bool> = Key::new("augment.flip", "mirror half of the training images")
    .default("false")
    .edit(Edit::Reported);
const ALTERNATING_FLIP: Key<bool> = Key::new(
    "augment.alternating_flip",
    "mirror each training image in exactly every second epoch, half of them in the first; instead of `augment.flip`",
)
.default("false")
.edit(Edit::Reported);
const TRANSLATE: Key<usize> =
    Key::new("augment.translate", "shift by up to this many pixels, reflecting the border")
        .default("0")
        .edit(Edit::Reported);
const ROTATE: Key<f32> = Key::new(
    "augment.rotate",
    "rotate by up to this many degrees in either direction, reflecting the border",
)
.default("0.0")
.edit(Edit::Reported);
const ZOOM: Key<Zoom> = Key::new(
    "augment.zoom",
    "`min_factor` and `max_factor`: zoom about the center, reflecting the border",
)
.edit(Edit::Reported);
pub(super) const CROP: Key<RandomResizedCrop> = Key::new(
    "augment.random_resized_crop",
    "`min_area` (0.08) and `max_stretch` (4/3): random resized crop, of whole pictures with `data.resize` `center-crop`",
)
.edit(Edit::Reported);
const JITTER: Key<ColorJitter> = Key::new(
    "augment.color_jitter",
    "`brightness`, `contrast`, `saturation` (0 to 1) and `hue` (turns, 0 to 0.5): the strongest change of each, 0 where not given",
).edit(Edit::Reported);
const MIX_UP: Key<MixUp> = Key::new(
    "augment.mix_up",
    "`alpha`: mixup of each image and its class with the next of its batch, with a weight drawn from Beta(`alpha`, `alpha`); with cross-entropy, binary cross-entropy and squared errors only",
).edit(Edit::Reported);

/// The keys of `augment`.
pub(super) const KEYS: Keys =
    &[&FLIP, &ALTERNATING_FLIP, &TRANSLATE, &ROTATE, &ZOOM, &CROP, &JITTER, &MIX_UP];

/// Random transforms of training images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AugmentPlan {
    flip: bool,
    alternating_flip: bool,
    /// In pixels.
    translate: usize,
    /// In degrees.
    rotate: f32,
    zoom: Option<Zoom>,
    pub(super) crop: Option<RandomResizedCrop>,
    jitter: Option<ColorJitter>,
    pub(super) mix_up: Option<MixUp>,
}

impl AugmentPlan {
    /// Reads every key; images are of that size.
    pub(super) fn read(
        settings: &Settings,
        (height, width): (usize, usize),
    ) -> Result<Self, ConfigError> {
        let plan = Self {
            flip: settings.value(&FLIP)?,
            alternating_flip: settings.value(&ALTERNATING_FLIP)?,
            translate: settings.value(&TRANSLATE)?,
            rotate: settings.value(&ROTATE)?,
            zoom: settings.option(&ZOOM)?,
            crop: settings.option(&CROP)?,
            jitter: settings.option(&JITTER)?,
            mix_up: settings.option(&MIX_UP)?,
        };
        if plan.flip && plan.alternating_flip {
            let expected = "false with `augment.flip = true`: both mirror left and right";
            return Err(settings.refuse("augment.alternating_flip", true, expected));
        }
        let side = height.min(width);
        if 2 * plan.translate >= side {
            let expected = "less than half of the image's shorter side";
            return Err(settings.refuse("augment.translate", plan.translate, expected));
        }
        let images = RasterSpec::rgb8(height, width);
        let transforms = plan.keyed().into_iter();
        let checked = transforms.map(|(key, transform)| (key, transform.validate(&images)));
        let mixed = plan.mix_up.map(|mix_up| ("augment.mix_up", mix_up.validate()));
        for (key, checked) in checked.chain(mixed) {
            checked.map_err(|error| settings.refuse_data(key, &error))?;
        }
        Ok(plan)
    }

    /// The transforms in the order in which they are applied.
    pub(super) fn transforms(&self) -> Vec<Arc<dyn Augment>> {
        self.keyed().into_iter().map(|(_, transform)| transform).collect()
    }

    /// Those that follow the crop, where that is taken of whole pictures.
    pub(super) fn transforms_after_crop(&self) -> Vec<Arc<dyn Augment>> {
        Self { crop: None, ..*self }.transforms()
    }

    /// The key of a transform, or of the mixing of images, if there is one.
    pub(super) fn first_key(&self) -> Option<&'static str> {
        let transform = self.keyed().first().map(|(key, _)| *key);
        transform.or(self.mix_up.map(|_| "augment.mix_up"))
    }

    /// Crops come first, color changes last.
    fn keyed(&self) -> Vec<(&'static str, Arc<dyn Augment>)> {
        let mut all: Vec<(&'static str, Arc<dyn Augment>)> = Vec::new();
        if let Some(crop) = self.crop {
            all.push(("augment.random_resized_crop", Arc::new(crop)));
        }
        if self.flip {
            all.push(("augment.flip", Arc::new(HorizontalFlip)));
        }
        if self.alternating_flip {
            all.push(("augment.alternating_flip", Arc::new(AlternatingFlip)));
        }
        if self.translate > 0 {
            let translate = Translate { max_pixels: self.translate };
            all.push(("augment.translate", Arc::new(translate)));
        }
        // Includes NaN, so that it is refused.
        if self.rotate != 0.0 {
            all.push(("augment.rotate", Arc::new(Rotate { max_degrees: self.rotate })));
        }
        if let Some(zoom) = self.zoom {
            all.push(("augment.zoom", Arc::new(zoom)));
        }
        if let Some(jitter) = self.jitter {
            all.push(("augment.color_jitter", Arc::new(jitter)));
        }
        all
    }
}
