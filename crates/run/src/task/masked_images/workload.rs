//! The workload of a masked autoencoder and its images.

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_data::{LastBatch, Loader, NormalizeChannels, Order, SampleConfig, SampleSource};
use updraft_models::MaskedAutoencoder;

use super::MaskedPlan;
use super::masks::{MaskedBatch, MaskedStream, Masks};
use super::pictures::pictures;
use super::reconstruct::Reconstruct;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::image_pairs::data::{IMAGES, ImagePairs};
use crate::task::{About, Picture, StreamUse, Streams, Workload};

/// A masked autoencoder with its images.
pub(super) struct Reconstruction {
    pub(super) own: MaskedPlan,
    pub(super) data: ImagePairs,
    pub(super) task: Reconstruct,
}

impl Workload for Reconstruction {
    type Model = MaskedAutoencoder;
    type Task = Reconstruct;

    fn task(&self) -> &Reconstruct {
        &self.task
    }

    fn init(&self, device: &Device) -> MaskedAutoencoder {
        self.own.model.network(self.data.shape.inputs).init(device)
    }

    fn streams(
        &self,
        plan: &Plan,
        used_for: StreamUse<'_>,
    ) -> Result<Streams<MaskedBatch>, RunError> {
        let config = SampleConfig::new(plan.train.batch)
            .with_workers(plan.train.workers.into())
            .with_normalize(NormalizeChannels::default())
            .with_part(used_for.part())
            .with_seed(plan.seed);
        let shuffled = config
            .clone()
            .with_order(Order::Shuffled)
            .with_last(LastBatch::Drop)
            .with_augment(self.own.augment.transforms());
        let stream = |split| move |cause| RunError::Stream { split, cause: Box::new(cause) };
        let train = Loader::from_samples(self.data.train.clone(), shuffled);
        let test = Loader::from_samples(self.data.test.clone(), config);
        let masks = Masks { seed: plan.seed, tokens: self.task.tokens };
        Ok(Streams {
            train: Box::new(MaskedStream {
                images: Box::new(train.map_err(stream("training"))?),
                masks,
                varies: true,
            }),
            test: Box::new(MaskedStream {
                images: Box::new(test.map_err(stream("test"))?),
                masks,
                varies: false,
            }),
        })
    }

    fn about(&self) -> About {
        let ImagePairs { train, test, shape, .. } = &self.data;
        let sides: Vec<String> = self.own.data.patch.iter().map(usize::to_string).collect();
        let Reconstruct { tokens, visible, .. } = self.task;
        let channels = match shape.inputs {
            1 => "1 channel".to_owned(),
            channels => format!("{channels} channels"),
        };
        About {
            data: format!(
                "crops of {} from {} volumes to learn from, {} windows of {} to test",
                sides.join(" x "),
                train.pairs().len(),
                test.len(),
                test.patches().pairs().len(),
            ),
            model: format!(
                "masked autoencoder, {channels}, {} of {tokens} tokens masked",
                tokens - visible
            ),
            samples: "crops",
            short: "crops",
            notes: self.data.notes.clone(),
            train_samples: train.len(),
            test_samples: test.len(),
        }
    }

    fn signature(&self) -> Value {
        json!(self.data.shape)
    }

    fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        folder.write_bound_json(IMAGES, &self.data.shape)
    }

    fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        self.data.check(folder)
    }

    fn multiply_adds(&self, model: &MaskedAutoencoder) -> Result<u64, &'static str> {
        let Reconstruct { tokens, visible, .. } = self.task;
        Ok(model.multiply_adds(visible, tokens - visible))
    }

    fn pictures(
        &self,
        plan: &Plan,
        model: &MaskedAutoencoder,
        device: &Device,
    ) -> Result<Vec<Picture>, RunError> {
        let masks = Masks { seed: plan.seed, tokens: self.task.tokens };
        let network = (model, plan.precision);
        pictures(network, (&self.task, masks), &self.data.test, device)
    }
}
