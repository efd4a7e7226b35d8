//! Random parts of pictures and volumes, as batches.

use crate::digest::Digest;
use crate::error::DataError;
use crate::patch::Window;
use crate::random::{Purpose, Random};
use crate::stream::{Collate, Draw};
use crate::tensor_batch::{TargetBatch, TensorBatch};

/// A picture `[channels, height, width]` or a volume `[channels, depth, height, width]`, with
/// what a model is to make of it: the same place in another picture or volume.
#[derive(Debug, Clone, PartialEq)]
pub struct PatchPair {
    /// What an error calls it.
    pub name: String,
    /// The axes after the channels, two or three.
    pub shape: Vec<usize>,
    /// Channels of the input.
    pub channels: usize,
    /// The input, `[channels, …shape]`.
    pub input: Vec<f32>,
    /// Channels of the target; 0 for none.
    pub target_channels: usize,
    /// The target, `[target_channels, …shape]`.
    pub target: Vec<f32>,
}

/// Parts of pictures or volumes at random places, the same place in input and target.
///
/// One epoch has `per_pair` parts of each pair; the place of a part is a function of (seed,
/// epoch, sample index), and every place is equally likely.
#[derive(Debug, Clone)]
pub struct RandomPatches {
    pairs: Vec<PatchPair>,
    patch: Vec<usize>,
    per_pair: usize,
    fingerprint: String,
    settings: String,
}

impl RandomPatches {
    /// Prepares parts of the given shape, channels not counted.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no pairs, [`DataError::Values`] for a pair whose values do not
    /// fit its shape, [`DataError::Setting`] for a part that does not fit into every pair, pairs
    /// of different channels, or no parts.
    pub fn try_new(
        pairs: Vec<PatchPair>,
        patch: &[usize],
        per_pair: usize,
    ) -> Result<Self, DataError> {
        let Some(first) = pairs.first() else { return Err(DataError::Empty) };
        let fault = |name, value: String, expected: String| {
            Err(DataError::Setting { name, value, expected })
        };
        if per_pair == 0 || per_pair > 1 << 24 {
            return fault("per_pair", per_pair.to_string(), "1 to 16777216".to_owned());
        }
        let channels = (first.channels, first.target_channels);
        let settings = Digest::new("updraft random patches").number(per_pair).number(patch.len());
        let settings = patch.iter().fold(settings, |digest, &side| digest.number(side)).hex();
        let mut digest = Digest::new("updraft patch pairs");
        for pair in &pairs {
            let sides = patch.iter().zip(&pair.shape);
            let fits = sides.clone().all(|(part, whole)| (1..=*whole).contains(part));
            if pair.shape.len() != patch.len() || !(2..=3).contains(&patch.len()) || !fits {
                let expected = format!("2 or 3 sides within {:?} of `{}`", pair.shape, pair.name);
                return fault("patch", format!("{patch:?}"), expected);
            }
            if (pair.channels, pair.target_channels) != channels || pair.channels == 0 {
                let got = format!("{:?} in `{}`", (pair.channels, pair.target_channels), pair.name);
                return fault("channels", got, format!("{channels:?} as in the first pair"));
            }
            for (channels, values) in
                [(pair.channels, &pair.input), (pair.target_channels, &pair.target)]
            {
                let shape = [&[channels], pair.shape.as_slice()].concat();
                let expected =
                    shape.iter().try_fold(1_usize, |count, &side| count.checked_mul(side));
                if expected != Some(values.len()) {
                    let (expected, got) = (expected.unwrap_or(0), values.len());
                    return Err(DataError::Values { samples: 1, shape, expected, got });
                }
                digest = shape.iter().fold(digest, |digest, &side| digest.number(side));
                digest = values.iter().fold(digest, |digest, &value| digest.float(value));
            }
        }
        Ok(Self { pairs, patch: patch.to_vec(), per_pair, fingerprint: digest.hex(), settings })
    }

    fn patch_values(&self) -> usize {
        self.patch.iter().product()
    }

    fn window(&self, draw: Draw) -> (&PatchPair, Window<'_>) {
        let pair = &self.pairs[draw.index / self.per_pair];
        let mut random = Random::new(Purpose::Patch, draw.seed, draw.epoch, draw.index as u64);
        let place =
            |(&whole, &part): (&usize, &usize)| random.below((whole - part) as u64 + 1) as usize;
        let origin = pair.shape.iter().zip(&self.patch).map(place).collect();
        (pair, Window { whole: &pair.shape, origin, shape: &self.patch })
    }
}

impl Collate for RandomPatches {
    type Batch = TensorBatch;
    type Scratch = ();

    fn len(&self) -> usize {
        self.pairs.len() * self.per_pair
    }

    fn name(&self, index: usize) -> String {
        let (pair, part) = (index / self.per_pair, index % self.per_pair);
        format!("part {part} of {}", self.pairs[pair].name)
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn settings_fingerprint(&self) -> String {
        self.settings.clone()
    }

    fn sample_bytes(&self) -> usize {
        let first = &self.pairs[0];
        size_of::<f32>() * self.patch_values() * (first.channels + first.target_channels)
    }

    fn begin(&self, samples: usize) -> TensorBatch {
        let first = &self.pairs[0];
        let values = |channels: usize| Vec::with_capacity(samples * channels * self.patch_values());
        let shape = |channels: usize| [&[channels], self.patch.as_slice()].concat();
        let targets = match first.target_channels {
            0 => TargetBatch::None,
            channels => TargetBatch::Values { shape: shape(channels), values: values(channels) },
        };
        let (shape, values) = (shape(first.channels), values(first.channels));
        TensorBatch { shape, values, targets, indices: Vec::with_capacity(samples) }
    }

    fn add(&self, draw: Draw, (): &mut (), batch: &mut TensorBatch) -> Result<(), DataError> {
        let (pair, window) = self.window(draw);
        window.copy(&pair.input, &mut batch.values);
        if let TargetBatch::Values { values, .. } = &mut batch.targets {
            window.copy(&pair.target, values);
        }
        batch.indices.push(draw.index);
        Ok(())
    }

    fn truncate(&self, batch: &mut TensorBatch, samples: usize) {
        batch.truncate(samples);
    }
}
