//! The network: encoder, bottleneck and decoder.

use burn::module::Module;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor, assert_shape};
use updraft_conv::{Activation, ConvNormActivation};

use super::block::{Doubling, convolution, multiply_adds};
use super::bottleneck::Bottleneck;
use super::config::{CoreLayer, DualAutoencoderConfig};
use super::core::{Core, spline_config};
use super::hourglass::Hourglass;
use crate::initialize::initialize_parameters;

/// Encodes images to a latent and decodes them, with an encoder and a decoder that are autoencoders
/// themselves, and KAN convolutions at the lowest resolution of both.
///
/// With the default widths, for an image of 128×128:
///
/// ```text
/// encoder     3×128² → 384×64² → 128×32² → 64×16² → splines → 128×32² → 384×64²
/// bottleneck  384×64² → 384×32² → attention → 16×16² → attention (the latent) → 128×32²
/// decoder     128×32² → 128×64² → 128×32² → 64×16² → splines → 128×32² → 384×64² → 384×128²
///             → 3×128² → splines of each pixel → output
/// ```
///
/// Each arrow is a 3×3 convolution with batch norm and `ELU`: strided where the size halves,
/// transposed where it doubles. The encoder adds its first feature maps of 384 and 128 channels to
/// the later ones of the same size, and the decoder adds them to its own.
///
/// The network computes on the device of its parameters and in the dtype of its input.
#[derive(Module, Debug)]
pub struct DualAutoencoder {
    stem: ConvNormActivation,
    encoder: Hourglass,
    bottleneck: Bottleneck,
    double: Doubling,
    decoder: Hourglass,
    to_image_size: Doubling,
    to_channels: ConvNormActivation,
    last: Core,
    #[module(skip)]
    config: DualAutoencoderConfig,
}

impl DualAutoencoder {
    pub(super) fn new(config: &DualAutoencoderConfig, device: &Device) -> Self {
        let ([wide, middle, _], bias) = (config.widths, config.conv_bias);
        let elu = Activation::Elu;
        let before_last = match (config.core, config.output_range) {
            // An `ELU` before the sigmoid would bound the output from below.
            (CoreLayer::None, Some(_)) => Activation::Identity,
            _ => Core::activation_before(config),
        };
        let net = Self {
            stem: convolution([config.channels, wide], 2, bias, elu, device),
            encoder: Hourglass::new(config, wide, device),
            bottleneck: Bottleneck::new(config, device),
            double: Doubling::new([middle, middle], bias, device),
            decoder: Hourglass::new(config, middle, device),
            to_image_size: Doubling::new([wide, wide], bias, device),
            to_channels: convolution([wide, config.channels], 1, bias, before_last, device),
            last: Core::new(config, &spline_config(config.channels, 1, 2, 1), device),
            config: config.clone(),
        };
        initialize_parameters(&net);
        net
    }

    /// Encodes images and decodes them.
    ///
    /// # Shapes
    /// - `images`: `[batch, channels, height, width]`, sides that are multiples of 8
    /// - returns: the same shape
    ///
    /// # Panics
    /// If [`check_image`](DualAutoencoderConfig::check_image) refuses the sides, or the channels
    /// or the dtype are not those of the parameters.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<4> {
        let (latent, maps) = self.encode_with_maps(images);
        self.decode_with_maps(latent, self.config.decoder_skips.then_some(maps))
    }

    /// The latent of images.
    ///
    /// # Shapes
    /// - `images`: `[batch, channels, height, width]`, sides that are multiples of 8
    /// - returns: `[batch, latent, height / 8, width / 8]`
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[must_use]
    pub fn encode(&self, images: Tensor<4>) -> Tensor<4> {
        self.encode_with_maps(images).0
    }

    /// The configuration of the network.
    #[must_use]
    pub const fn config(&self) -> &DualAutoencoderConfig {
        &self.config
    }

    /// Multiply-adds of the forward pass of one image of this height and width.
    ///
    /// Counts convolutions and splines; norms, activations and attention are left out.
    #[must_use]
    pub fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        let [half, quarter] = [2, 4].map(|by| image.map(|side| side / by));
        let sum = multiply_adds(&self.stem.conv, half)
            + self.encoder.multiply_adds(half)
            + self.bottleneck.multiply_adds(half)
            + self.double.multiply_adds(quarter)
            + self.decoder.multiply_adds(half)
            + self.to_image_size.multiply_adds(half)
            + multiply_adds(&self.to_channels.conv, image)
            + self.last.multiply_adds(image);
        sum as u64
    }

    /// The latent, and the encoder's feature maps at a quarter and at a half of the image's size.
    fn encode_with_maps(&self, images: Tensor<4>) -> (Tensor<4>, [Tensor<4>; 2]) {
        let channels = self.config.channels;
        assert_shape!(images, [_, channels, _, _]);
        let [_, _, height, width] = images.dims();
        if let Err(error) = self.config.check_image([height, width]) {
            panic!("{error}");
        }
        let wide = self.stem.forward(images);
        let [middle, narrow] = self.encoder.narrow(wide.clone());
        let maps = [middle, wide];
        let encoded = self.encoder.widen(narrow, Some(maps.clone()));
        (self.bottleneck.encode(encoded), maps)
    }

    fn decode_with_maps(&self, latent: Tensor<4>, maps: Option<[Tensor<4>; 2]>) -> Tensor<4> {
        let doubled = self.double.forward(self.bottleneck.decode(latent));
        let [_, narrow] = self.decoder.narrow(doubled);
        let wide = self.decoder.widen(narrow, maps);
        let pixels = self.to_channels.forward(self.to_image_size.forward(wide));
        let pixels = self.last.forward(pixels);
        match self.config.output_range {
            Some([low, high]) => sigmoid(pixels) * (high - low) + low,
            None => pixels,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{ModuleVisitor, Param};

    use super::*;
    use crate::LatentAttention;

    /// Numbers that are learned: what norms keep of batches is not.
    #[derive(Default)]
    struct Learned {
        path: Vec<String>,
        count: usize,
    }

    impl ModuleVisitor for Learned {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if !self.path.last().is_some_and(|name| name.starts_with("running_")) {
                self.count += param.lazy_shape().num_elements();
            }
        }
    }

    fn learned(module: &impl Module) -> usize {
        let mut visitor = Learned::default();
        module.visit(&mut visitor);
        visitor.count
    }

    #[test]
    fn the_compatible_form_has_the_parameters_of_the_source_in_every_part() {
        let _alone = updraft_testing::alone();
        let net = DualAutoencoderConfig::compatible().init(&Device::flex());
        let hourglass = |part: &Hourglass| {
            [
                learned(&part.to_middle),
                learned(&part.to_narrow),
                learned(&part.core),
                learned(&part.core_norm) + learned(&part.from_narrow),
                learned(&part.from_middle),
            ]
        };
        assert_eq!(learned(&net.stem), 11_520);
        assert_eq!(hourglass(&net.encoder), [442_752, 73_920, 258_048, 74_240, 443_520]);
        assert_eq!(learned(&net.stem) + learned(&net.encoder), 1_304_000);
        let bottleneck = &net.bottleneck;
        assert_eq!(learned(&bottleneck.halve), 1_328_256);
        assert_eq!(learned(&bottleneck.wide_attention), 39_387);
        assert_eq!(learned(&bottleneck.to_latent), 55_344);
        assert_eq!(learned(&bottleneck.latent_attention), 126);
        assert_eq!(learned(&bottleneck.from_latent), 18_816);
        assert_eq!(learned(bottleneck), 1_441_929);
        assert_eq!(learned(&net.double), 147_840);
        assert_eq!(hourglass(&net.decoder), [147_840, 73_920, 258_048, 74_240, 443_520]);
        assert_eq!(learned(&net.to_image_size), 1_328_256);
        assert_eq!(learned(&net.to_channels), 10_377);
        assert_eq!(learned(&net.last), 45);
        assert_eq!(learned(&net), 5_230_015);
    }

    #[test]
    fn convolutions_in_the_place_of_splines_have_as_many_parameters() {
        let _alone = updraft_testing::alone();
        let with = |core| DualAutoencoderConfig::new().with_core(core).init(&Device::flex());
        let (kan, conv) = (with(CoreLayer::Kan), with(CoreLayer::Conv));
        assert_eq!(learned(&conv.encoder.core), 258_048);
        assert_eq!(learned(&conv.last), 45);
        assert_eq!(learned(&conv), learned(&kan));
        // Of the compatible form the biases of 15 convolutions are missing.
        let biases = 384 + 2 * (128 + 64 + 128 + 384) + 384 + 16 + 128 + 128 + 384 + 3;
        assert_eq!(learned(&kan), 5_230_015 - biases);
        assert_eq!(learned(&with(CoreLayer::None)), learned(&kan) - 2 * 258_048 - 45);
        let bare = DualAutoencoderConfig::new().with_attention(LatentAttention::None);
        assert_eq!(learned(&bare.init(&Device::flex())), learned(&kan) - 39_387 - 126);
    }

    #[test]
    fn a_small_network_costs_what_its_layers_cost_by_hand() {
        let _alone = updraft_testing::alone();
        let config = DualAutoencoderConfig::new()
            .with_channels(1)
            .with_widths([4, 3, 2])
            .with_latent(5)
            .with_attention(LatentAttention::None);
        let net = config.init(&Device::flex());
        // Of 16 × 16: 64 pixels at a half of the sides, 16 at a quarter, 4 at an eighth.
        let hourglass =
            |from: u64| 9 * (from * 3 * 16 + 3 * 2 * 4 + 2 * 2 * 4 * 4 + 2 * 3 * 4 + 3 * 4 * 16);
        let encoder = 9 * 4 * 64 + hourglass(4);
        let bottleneck = 9 * (4 * 4 * 16 + 4 * 5 * 4 + 5 * 3 * 4);
        let last = 9 * (4 * 4 * 64 + 4 * 256) + 3 * 256;
        let decoder = 9 * 3 * 3 * 16 + hourglass(3) + last;
        assert_eq!(net.multiply_adds([16, 16]), encoder + bottleneck + decoder);
    }
}
