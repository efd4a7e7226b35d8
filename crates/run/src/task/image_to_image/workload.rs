//! The workload of a network and its images.

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_data::{
    LastBatch, Loader, NormalizeChannels, Order, SampleConfig, SampleSource, TensorBatch,
};

use super::ImagePlan;
use super::convert::ConvertRank;
use super::image_network::ImageNetwork;
use super::pictures::pictures;
use super::quantizable::QuantizableConverter;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::load_stored;
use crate::task::image_pairs::data::{IMAGES, ImagePairs};
use crate::task::{About, Int8Forward, Picture, Quantizable, StreamUse, Streams, Workload};

/// A network with its images.
pub(super) struct Conversion<const D: usize, N> {
    pub(super) plan: ImagePlan,
    pub(super) data: ImagePairs,
    pub(super) task: ConvertRank<D>,
    /// Draws fresh parameters.
    pub(super) init: Box<dyn Fn(&Device) -> N>,
}

impl<const D: usize, N: ImageNetwork<D>> Workload for Conversion<D, N> {
    type Model = N;
    type Task = ConvertRank<D>;

    fn task(&self) -> &ConvertRank<D> {
        &self.task
    }

    fn init(&self, device: &Device) -> N {
        (self.init)(device)
    }

    fn prepare(&self, _: &Plan, model: N, _: &Device) -> Result<N, RunError> {
        match self.plan.model.encoder(Some(self.data.shape.inputs)) {
            Some(encoder) => model.with_encoder_of(&encoder.checkpoint()?),
            None => Ok(model),
        }
    }

    fn streams(
        &self,
        plan: &Plan,
        used_for: StreamUse<'_>,
    ) -> Result<Streams<TensorBatch>, RunError> {
        let config = SampleConfig::new(plan.train.batch)
            .with_workers(plan.train.workers.into())
            .with_normalize(NormalizeChannels::default())
            .with_part(used_for.part())
            .with_seed(plan.seed);
        let shuffled = config
            .clone()
            .with_order(Order::Shuffled)
            .with_last(LastBatch::Drop)
            .with_augment(self.plan.augment.transforms());
        let stream = |split| move |cause| RunError::Stream { split, cause: Box::new(cause) };
        let train = Loader::from_samples(self.data.train.clone(), shuffled);
        let test = Loader::from_samples(self.data.test.clone(), config);
        Ok(Streams {
            train: Box::new(train.map_err(stream("training"))?),
            test: Box::new(test.map_err(stream("test"))?),
        })
    }

    fn about(&self) -> About {
        let ImagePairs { train, test, shape, .. } = &self.data;
        let sides: Vec<String> = self.plan.data.patch.iter().map(usize::to_string).collect();
        let count = |volumes: usize| match volumes {
            1 => "1 volume".to_owned(),
            volumes => format!("{volumes} volumes"),
        };
        About {
            data: format!(
                "patches of {} from {} to learn from, {} windows of {} to test",
                sides.join(" x "),
                count(train.pairs().len()),
                test.len(),
                count(test.patches().pairs().len()),
            ),
            model: format!("{}, {} to {} channels", N::KIND, shape.inputs, shape.outputs),
            samples: "patches",
            short: "patches",
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

    fn into_quantizable(
        self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError> {
        let network = load_stored((self.init)(device), plan, folder)?;
        Ok(Box::new(QuantizableConverter::<D, N> {
            own: self.plan,
            data: self.data,
            seed: plan.seed,
            workers: plan.train.workers,
            network,
            device: device.clone(),
        }))
    }

    fn multiply_adds(&self, model: &N) -> Result<u64, &'static str> {
        Ok(model.multiply_adds(&self.plan.data.patch))
    }

    fn int8_forward(&self) -> Result<Int8Forward<Self>, &'static str> {
        // Networks with a penalty on splines have no int8 form.
        Ok(Int8Forward::<Self>::Whole(|network, images| (vec![network.forward(images)], None)))
    }

    fn pictures(&self, plan: &Plan, model: &N, device: &Device) -> Result<Vec<Picture>, RunError> {
        let objective = self.plan.objective;
        pictures::<D, N>((model, plan.precision), &objective, &self.data.test, device)
    }
}
