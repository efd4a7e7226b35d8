//! What the task needs of a network, and the networks that have it.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Tensor;
use updraft_models::{DenseTransformer, DualAutoencoder, UNet2d, UNet3d, UNetFlow};
use updraft_quant::Graph;
use updraft_trainer::SegmentValues;

use crate::error::RunError;
use crate::task::pretrained::load_encoder;

/// A network that converts images, where `D` is 4, or volumes, where it is 5.
pub(super) trait ImageNetwork<const D: usize>:
    Module + std::fmt::Debug + Send + 'static
{
    /// Its name in a configuration.
    const KIND: &'static str;

    /// The reason why it cannot be divided into segments.
    const CAN_BE_CUT: Result<(), &'static str>;

    /// The values passed between segments.
    type Flow: SegmentValues + 'static;

    /// From `[batch, channels, …sides]` to `[batch, other channels, …sides]`.
    fn convert(&self, images: Tensor<D>) -> Tensor<D>;

    /// The output, then those of coarser levels, at the same sides.
    fn convert_deep(&self, images: Tensor<D>) -> Vec<Tensor<D>>;

    /// The same network with the encoder of a pretrained checkpoint; the plan refuses
    /// networks that have none.
    fn with_encoder_of(self, checkpoint: &Path) -> Result<Self, RunError> {
        let _ = checkpoint;
        Err(RunError::model(format!("a network of the kind `{}` has no encoder", Self::KIND)))
    }

    /// The number of segments.
    fn segment_count(&self) -> usize;

    /// The input of the first segment.
    fn enter(&self, images: Tensor<D>) -> Self::Flow;

    /// Runs one segment.
    fn run_segment(&self, index: usize, flow: Self::Flow) -> Self::Flow;

    /// The output from the last segment's result.
    fn leave(&self, flow: Self::Flow) -> Tensor<D>;

    /// The network as a graph of layers for samples of `[channels, …sides]`; the plan refuses
    /// networks that have none.
    fn capture(&self, sample: &[usize]) -> Result<Graph, RunError> {
        let _ = sample;
        Err(RunError::model("not all of its layers have an int8 kernel"))
    }

    /// Multiply-adds of the forward pass of one sample of these sides.
    fn multiply_adds(&self, sides: &[usize]) -> u64;
}

/// Channels and sides, of which a network of this rank has so many.
fn shape_of<const N: usize>(sample: &[usize]) -> [usize; N] {
    std::array::from_fn(|axis| sample[axis])
}

macro_rules! image_network {
    ($network:ty, $rank:literal $(, $method:item)?) => {
        impl ImageNetwork<$rank> for $network {
            const KIND: &'static str = "unet";
            const CAN_BE_CUT: Result<(), &'static str> = Ok(());

            type Flow = UNetFlow<$rank>;

            fn convert(&self, images: Tensor<$rank>) -> Tensor<$rank> {
                self.forward(images)
            }

            fn convert_deep(&self, images: Tensor<$rank>) -> Vec<Tensor<$rank>> {
                self.forward_deep(images)
            }

            fn segment_count(&self) -> usize {
                self.segments()
            }

            fn enter(&self, images: Tensor<$rank>) -> Self::Flow {
                Self::enter(self, images)
            }

            fn run_segment(&self, index: usize, flow: Self::Flow) -> Self::Flow {
                self.segment(index, flow)
            }

            fn leave(&self, flow: Self::Flow) -> Tensor<$rank> {
                Self::leave(self, flow)
            }

            $($method)?

            fn multiply_adds(&self, sides: &[usize]) -> u64 {
                Self::multiply_adds::<$rank>(self, sides)
            }
        }
    };
}

image_network!(
    UNet2d,
    4,
    fn capture(&self, sample: &[usize]) -> Result<Graph, RunError> {
        let forward = |network: &Self, x: Tensor<4>| network.forward(x);
        Graph::try_capture(self, shape_of::<3>(sample), forward).map_err(RunError::model)
    }
);
image_network!(UNet3d, 5);

impl ImageNetwork<4> for DualAutoencoder {
    const KIND: &'static str = "dual-autoencoder";
    const CAN_BE_CUT: Result<(), &'static str> = Err("an autoencoder is not cut into segments");

    type Flow = Tensor<4>;

    fn convert(&self, images: Tensor<4>) -> Tensor<4> {
        self.forward(images)
    }

    fn convert_deep(&self, images: Tensor<4>) -> Vec<Tensor<4>> {
        vec![self.forward(images)]
    }

    fn segment_count(&self) -> usize {
        1
    }

    fn enter(&self, images: Tensor<4>) -> Tensor<4> {
        images
    }

    fn run_segment(&self, _: usize, flow: Tensor<4>) -> Tensor<4> {
        self.forward(flow)
    }

    fn leave(&self, flow: Tensor<4>) -> Tensor<4> {
        flow
    }

    fn capture(&self, sample: &[usize]) -> Result<Graph, RunError> {
        let forward = |network: &Self, x: Tensor<4>| network.forward(x);
        Graph::try_capture(self, shape_of::<3>(sample), forward).map_err(RunError::model)
    }

    fn multiply_adds(&self, sides: &[usize]) -> u64 {
        Self::multiply_adds(self, [sides[0], sides[1]])
    }
}

macro_rules! dense_transformer {
    ($rank:literal $(, $method:item)?) => {
        impl ImageNetwork<$rank> for DenseTransformer {
            const KIND: &'static str = "vision-transformer";
            const CAN_BE_CUT: Result<(), &'static str> = Ok(());

            type Flow = Tensor<3>;

            fn convert(&self, images: Tensor<$rank>) -> Tensor<$rank> {
                self.forward(images)
            }

            fn convert_deep(&self, images: Tensor<$rank>) -> Vec<Tensor<$rank>> {
                vec![self.forward(images)]
            }

            fn with_encoder_of(self, checkpoint: &Path) -> Result<Self, RunError> {
                let encoder = load_encoder(checkpoint, self.encoder().clone())?;
                Ok(self.with_encoder(encoder))
            }

            fn segment_count(&self) -> usize {
                self.segments()
            }

            fn enter(&self, images: Tensor<$rank>) -> Tensor<3> {
                Self::enter(self, images)
            }

            fn run_segment(&self, index: usize, flow: Tensor<3>) -> Tensor<3> {
                self.forward_segment(index, flow)
            }

            fn leave(&self, flow: Tensor<3>) -> Tensor<$rank> {
                self.forward_head(flow)
            }

            $($method)?

            fn multiply_adds(&self, _: &[usize]) -> u64 {
                Self::multiply_adds(self)
            }
        }
    };
}

dense_transformer!(
    4,
    fn capture(&self, sample: &[usize]) -> Result<Graph, RunError> {
        let forward = |network: &Self, x: Tensor<4>| network.forward(x);
        Graph::try_capture(self, shape_of::<3>(sample), forward).map_err(RunError::model)
    }
);
dense_transformer!(
    5,
    fn capture(&self, sample: &[usize]) -> Result<Graph, RunError> {
        let forward = |network: &Self, x: Tensor<5>| network.forward(x);
        Graph::try_capture(self, shape_of::<4>(sample), forward).map_err(RunError::model)
    }
);
