//! The U-Net: levels of an encoder, levels of a decoder, and the output.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor};
use updraft_conv::{Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d};

use super::block::Block;
use super::config::{Downsampling, UNetBlock, UNetConfig, Upsampling};
use super::layers::SpatialLayers;
use crate::initialize::initialize_parameters;

/// A U-Net of images: a [`UNet`] whose input is `[batch, channels, height, width]`.
pub type UNet2d = UNet<Conv2d, ConvTranspose2d>;

/// A U-Net of volumes: a [`UNet`] whose input is `[batch, channels, depth, height, width]`.
pub type UNet3d = UNet<Conv3d, ConvTranspose3d>;

/// Predicts an image from an image, or a volume from a volume, of the same sides.
///
/// The encoder halves every side from level to level; the decoder doubles them and concatenates the
/// encoder's feature maps of the same sides. A convolution of kernel size 1 with bias computes the
/// output. [`UNetConfig`] creates [`UNet2d`] and [`UNet3d`].
///
/// The network computes on the device of its parameters and in the dtype of its input.
///
/// # Source
/// Ronneberger, Fischer and Brox 2015, arXiv:1505.04597; Çiçek et al. 2016, arXiv:1606.06650, for
/// volumes. The default configuration is MONAI 1.6.1's `DynUNet` with `res_block=True`, with equal
/// outputs and parameter counts (`crates/models/tests/it/unet/golden.rs`).
#[derive(Module, Debug)]
pub struct UNet<C: Module, U: Module> {
    encoder: Vec<Block<C>>,
    decoder: Vec<DecoderLevel<C, U>>,
    output: C,
    /// Outputs of the levels below the finest one, from fine to coarse.
    coarse: Vec<C>,
    #[module(skip)]
    downsampling: Downsampling,
}

/// One level of the decoder: up-sampling, and the block that takes it together with the encoder's
/// result.
#[derive(Module, Debug)]
struct DecoderLevel<C: Module, U: Module> {
    transposed: Option<U>,
    /// The convolution of kernel size 1 before linear interpolation.
    narrowed: Option<C>,
    block: Block<C>,
}

/// The values passed between the segments of a [`UNet`]: the encoder's results that the decoder still
/// needs, the finest first, and last the current feature maps, which may be one of these.
pub type UNetFlow<const D: usize> = Vec<Tensor<D>>;

const CURRENT: &str = "the current feature maps are the last of the flow";

impl<C: Module + ModuleDisplay, U: Module + ModuleDisplay> UNet<C, U> {
    pub(super) fn new<const D: usize>(config: &UNetConfig, device: &Device) -> Self
    where
        C: SpatialLayers<D, Transposed = U>,
    {
        if let Err(error) = config.validate() {
            panic!("{error}");
        }
        let (filters, initializer) = (&config.filters, config.initializer());
        let encoder = (0..filters.len())
            .map(|level| {
                let input = if level == 0 { config.in_channels } else { filters[level - 1] };
                let is_strided = level > 0 && config.downsampling == Downsampling::Strided;
                let stride = if is_strided { 2 } else { 1 };
                Block::new(config, config.block, [input, filters[level]], stride, device)
            })
            .collect();
        let decoder = (0..filters.len() - 1).rev().map(|level| {
            let channels = [filters[level + 1], filters[level]];
            let (initializer, bias) = (initializer.clone(), config.upsampling_bias);
            let (transposed, narrowed) = match config.upsampling {
                Upsampling::Transposed => {
                    (Some(C::transposed(channels, bias, initializer, device)), None)
                }
                Upsampling::Linear => {
                    (None, Some(C::convolution(channels, 1, 1, bias, initializer, device)))
                }
            };
            let joined = [2 * filters[level], filters[level]];
            let block = Block::new(config, UNetBlock::Plain, joined, 1, device);
            DecoderLevel { transposed, narrowed, block }
        });
        let output = |level: usize| {
            let channels = [filters[level], config.out_channels];
            C::convolution(channels, 1, 1, true, initializer.clone(), device)
        };
        let net = Self {
            encoder,
            decoder: decoder.collect(),
            output: output(0),
            coarse: (1..=config.deep_supervision).map(output).collect(),
            downsampling: config.downsampling,
        };
        initialize_parameters(&net);
        net
    }

    /// Computes the output.
    ///
    /// # Shapes
    /// - `x`: `[batch, in_channels, …sides]`, each side a multiple of [`UNetConfig::stride`]
    /// - returns: `[batch, out_channels, …sides]`
    ///
    /// # Panics
    /// If `x` has another number of channels, or a side that is not a multiple of the stride.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>
    where
        C: SpatialLayers<D, Transposed = U>,
    {
        let flow = self.enter(x);
        let flow = (0..self.segments()).fold(flow, |flow, index| self.segment(index, flow));
        self.leave(flow)
    }

    /// The output, then those of the coarser levels, each interpolated to the sides of the input. A
    /// loss on each of them, weighted by `1, ½, ¼, …` for example, trains the decoder at every
    /// level.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_deep<const D: usize>(&self, x: Tensor<D>) -> Vec<Tensor<D>>
    where
        C: SpatialLayers<D, Transposed = U>,
    {
        let sides = x.dims()[2..].to_vec();
        let mut flow = self.enter(x);
        let mut outputs = Vec::new();
        for index in 0..self.segments() {
            flow = self.segment(index, flow);
            // The segments end with the finest level.
            let level = self.segments() - 1 - index;
            if level > 0
                && level <= self.coarse.len()
                && let Some(head) = self.coarse.get(level - 1)
            {
                let maps = flow.last().expect(CURRENT).clone();
                outputs.push(C::resize(head.convolve(maps), &sides));
            }
        }
        outputs.push(self.leave(flow));
        outputs.reverse();
        outputs
    }

    /// The number of segments: the levels of the encoder, then those of the decoder.
    ///
    /// [`enter`](Self::enter), [`segment`](Self::segment) for each in order and then
    /// [`leave`](Self::leave) compute what [`forward`](Self::forward) does; a trainer that
    /// recomputes activations keeps only what is passed between them.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.encoder.len() + self.decoder.len()
    }

    /// The input of the first segment.
    ///
    /// # Panics
    /// If a side is not a multiple of the stride.
    pub fn enter<const D: usize>(&self, x: Tensor<D>) -> UNetFlow<D> {
        let stride = 1 << (self.encoder.len() - 1);
        let dims = x.dims();
        for (axis, &side) in dims.iter().enumerate().skip(2) {
            assert!(
                side > 0 && side % stride == 0,
                "axis {axis} of the input is {side}; expected a multiple of {stride}, such as {}",
                side.next_multiple_of(stride).max(stride)
            );
        }
        vec![x]
    }

    /// Computes one segment.
    ///
    /// # Panics
    /// If `index` is not below [`segments`](Self::segments), or `flow` is not the previous
    /// segment's result.
    pub fn segment<const D: usize>(&self, index: usize, mut flow: UNetFlow<D>) -> UNetFlow<D>
    where
        C: SpatialLayers<D, Transposed = U>,
    {
        let Some(level) = index.checked_sub(self.encoder.len()) else {
            // The decoder needs the results of the encoder, but not its input.
            let x = if index == 0 { flow.pop() } else { flow.last().cloned() }.expect(CURRENT);
            let pools = index > 0 && self.downsampling == Downsampling::MaxPool;
            let x = if pools { C::pool(x) } else { x };
            flow.push(self.encoder[index].forward(x));
            return flow;
        };
        let DecoderLevel { transposed, narrowed, block } = &self.decoder[level];
        let x = flow.pop().expect(CURRENT);
        let skip = flow.pop().expect("the encoder has a result for each level of the decoder");
        let x = match (transposed, narrowed) {
            (Some(layer), _) => C::upsample(layer, x),
            (None, Some(layer)) => C::resize(layer.convolve(x), &skip.dims()[2..]),
            (None, None) => unreachable!("a level of the decoder has one of the two"),
        };
        let x = block.convolve_joined(x, skip);
        // The output's convolution normalizes the last result.
        let is_last = level + 1 == self.decoder.len();
        flow.push(if is_last { x } else { block.normalize(x) });
        flow
    }

    /// Computes the output from the last segment's result, which is not normalized yet.
    ///
    /// # Panics
    /// If `flow` is empty.
    pub fn leave<const D: usize>(&self, mut flow: UNetFlow<D>) -> Tensor<D>
    where
        C: SpatialLayers<D, Transposed = U>,
    {
        let x = flow.pop().expect(CURRENT);
        match self.decoder.last() {
            Some(level) => level.block.normalize_then(x, &self.output),
            None => self.output.convolve(x),
        }
    }

    /// Multiply-adds of the convolutions in the forward pass of one sample of these sides.
    ///
    /// # Panics
    /// If the number of sides is not the network's number of spatial axes.
    pub fn multiply_adds<const D: usize>(&self, sides: &[usize]) -> u64
    where
        C: SpatialLayers<D, Transposed = U>,
    {
        assert_eq!(sides.len() + 2, D, "one side for each axis");
        let mut sizes: Vec<Vec<usize>> = Vec::new();
        let (mut sum, mut current) = (0, sides.to_vec());
        for (level, block) in self.encoder.iter().enumerate() {
            if level > 0 && self.downsampling == Downsampling::MaxPool {
                current = current.iter().map(|side| side / 2).collect();
            }
            let (own, next) = block.multiply_adds(&current);
            (sum, current) = (sum + own, next);
            sizes.push(current.clone());
        }
        for (level, DecoderLevel { transposed, narrowed, block }) in self.decoder.iter().enumerate()
        {
            let coarse = &sizes[self.encoder.len() - 1 - level];
            let positions = coarse.iter().product::<usize>() as u64;
            sum += transposed.as_ref().map_or(0, |up| positions * C::transposed_weights(up));
            sum += narrowed.as_ref().map_or(0, |conv| conv.multiply_adds(coarse).0);
            sum += block.multiply_adds(&sizes[self.encoder.len() - 2 - level]).0;
        }
        sum + self.output.multiply_adds(sides).0
    }
}
