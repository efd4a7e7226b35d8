//! The dual autoencoder: shapes, gradients, its options, and what it refuses.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_models::{
    CoreLayer, DualAutoencoder, DualAutoencoderConfig, DualAutoencoderConfigError, LatentAttention,
};
use updraft_testing::{
    Numbers, alone, autodiff_devices, devices, in_dtype, parameter_gradient_check, tolerance,
};

fn tiny() -> DualAutoencoderConfig {
    DualAutoencoderConfig::new().with_widths([4, 3, 2]).with_latent(2)
}

fn net(config: &DualAutoencoderConfig, device: &Device) -> DualAutoencoder {
    device.seed(11);
    config.init(device)
}

fn images(batch: usize, sides: [usize; 2], device: &Device) -> Tensor<4> {
    device.seed(5);
    Tensor::random([batch, 3, sides[0], sides[1]], Distribution::Uniform(0.0, 1.0), device)
}

/// Every combination of core layer and attention, with and without the fixed defects.
fn forms() -> Vec<DualAutoencoderConfig> {
    let mut forms = vec![
        DualAutoencoderConfig::compatible().with_widths([4, 3, 2]).with_latent(2),
        tiny().with_residual(true),
    ];
    for core in [CoreLayer::Kan, CoreLayer::Conv, CoreLayer::None] {
        for attention in [
            LatentAttention::Bam,
            LatentAttention::Cbam,
            LatentAttention::Eca,
            LatentAttention::None,
        ] {
            forms.push(tiny().with_core(core).with_attention(attention));
        }
    }
    forms
}

#[test]
fn images_come_back_in_their_shape_and_the_latent_has_an_eighth_of_their_sides() {
    for device in devices() {
        for form in forms() {
            let net = net(&form, &device);
            for sides in [[8, 8], [16, 24], [40, 8]] {
                let images = images(2, sides, &device);
                assert_eq!(net.encode(images.clone()).dims(), [2, 2, sides[0] / 8, sides[1] / 8]);
                assert_eq!(net.forward(images.clone()).dims(), images.dims());
            }
        }
    }
}

/// The last layer's splines have corners at their knots, and central differences across one are
/// wrong: with few pixels none is so close. `Bam` normalizes what a single convolution weight
/// scales, which has no gradient to compare; its own test has maps that it sees more of.
#[test]
fn every_gradient_agrees_with_central_differences() {
    for device in autodiff_devices() {
        let compatible = DualAutoencoderConfig::compatible().with_widths([4, 3, 2]).with_latent(2);
        for form in [
            tiny().with_attention(LatentAttention::Eca),
            tiny().with_attention(LatentAttention::Cbam).with_residual(true),
            tiny().with_attention(LatentAttention::Eca).with_core(CoreLayer::Conv),
            compatible.with_attention(LatentAttention::Eca),
        ] {
            let net = in_dtype(net(&form, &device), FloatDType::F64);
            let images = images(4, [8, 8], &device).cast(FloatDType::F64);
            parameter_gradient_check(&net, 2, tolerance::GRADIENT, |net| {
                (net.forward(images.clone()) - images.clone()).powi_scalar(2).mean()
            });
        }
    }
}

#[test]
fn the_output_is_inside_of_its_range_however_large_the_input_is() {
    for device in devices() {
        let images = images(2, [16, 16], &device) * 1000.0;
        for form in forms().iter().filter(|form| form.output_range.is_some()) {
            let form = form.clone().with_output_range(Some([-0.5, 2.0]));
            let numbers = net(&form, &device).forward(images.clone()).numbers();
            assert!(numbers.iter().all(|number| (-0.5..=2.0).contains(number)), "{form:?}");
        }
        let free = net(&tiny().with_output_range(None), &device).forward(images).numbers();
        assert!(free.iter().all(|number| number.is_finite()));
    }
}

/// The same network with every weight before the latent's decoding set to 0: what is left of an
/// image comes by the skips.
struct CutLatent(Vec<String>);

impl ModuleMapper for CutLatent {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let is_cut = self.0.join(".") == "bottleneck.from_latent.conv.weight";
        if is_cut { param.map(|weight| weight.zeros_like()) } else { param }
    }
}

#[test]
fn the_decoder_sees_the_encoders_maps_only_with_skips() {
    for device in devices() {
        let images = images(2, [16, 16], &device);
        let depends = |skips: bool| {
            let net = net(&tiny().with_decoder_skips(skips), &device).map(&mut CutLatent(vec![]));
            let [once, again] = [1.0, 2.0].map(|by| net.forward(images.clone() * by).numbers());
            once != again
        };
        assert!(depends(true));
        assert!(!depends(false));
    }
}

#[test]
fn batch_norms_move_once_a_pass() {
    for device in autodiff_devices() {
        let net = net(&tiny(), &device);
        let images = images(4, [16, 16], &device);
        let stem = |net: &DualAutoencoder| {
            let mut means = Means::default();
            // Without autodiff the network has what its norms were given so far.
            net.valid().visit(&mut means);
            means.0.expect("a running mean")
        };
        let before = stem(&net);
        assert!(before.iter().all(|mean| *mean == 0.0));
        let _ = net.forward(images.clone());
        let once = stem(&net);
        let _ = net.forward(images);
        let twice = stem(&net);
        // From 0 toward the same mean by a share m: m·μ, then (1 − (1 − m)²)·μ with m = 0.1.
        for (once, twice) in once.iter().zip(&twice) {
            assert!((twice - once * 1.9).abs() < 1e-6, "{once} {twice}");
        }
    }
}

/// The running mean of the first norm.
#[derive(Default)]
struct Means(Option<Vec<f64>>, Vec<String>);

impl ModuleVisitor for Means {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.1.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.1.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.1.join(".") == "stem.norm.running_mean" {
            self.0 = Some(param.val().numbers());
        }
    }
}

#[test]
fn updates_lower_the_error_of_the_images_they_were_made_on() {
    for device in autodiff_devices() {
        let images = images(4, [16, 16], &device);
        for form in [tiny(), tiny().with_core(CoreLayer::Conv).with_dropout(0.1)] {
            let mut net = net(&form, &device);
            let mut optimizer = AdamWConfig::new().init();
            let error = |net: &DualAutoencoder| {
                (net.forward(images.clone()) - images.clone()).powi_scalar(2).mean()
            };
            let before = error(&net).numbers()[0];
            for _ in 0..20 {
                let gradients = error(&net).backward();
                let gradients = GradientsParams::from_grads(gradients, &net);
                net = optimizer.step(0.01, net, gradients);
            }
            let after = error(&net).numbers()[0];
            assert!(after < 0.9 * before, "{before} {after}");
        }
    }
}

#[test]
fn dropout_acts_while_training_only() {
    for device in autodiff_devices() {
        let net = net(&tiny().with_dropout(0.5), &device);
        let rgb = images(2, [16, 16], &device);
        assert_ne!(net.forward(rgb.clone()).numbers(), net.forward(rgb.clone()).numbers());
        let (net, rgb) = (net.valid(), rgb.inner());
        assert_eq!(net.forward(rgb.clone()).numbers(), net.forward(rgb).numbers());
    }
}

#[test]
fn the_dtype_of_the_input_is_that_of_the_output() {
    for device in devices() {
        for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::BF16] {
            let net = in_dtype(net(&tiny(), &device), dtype);
            assert_eq!(net.forward(images(2, [8, 8], &device).cast(dtype)).dtype(), dtype.into());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_network() {
    let _alone = alone();
    let device = Device::flex();
    let answers = || net(&tiny(), &device).forward(images(2, [16, 16], &device)).into_data();
    assert!(answers() == answers());
}

#[test]
fn a_non_finite_pixel_shows_in_its_own_image_alone() {
    for device in devices() {
        let net = net(&tiny(), &device);
        let images = images(2, [16, 16], &device);
        for bad in [f32::NAN, f32::INFINITY] {
            let bad = images.clone().slice_fill([0..1, 0..1, 3..4, 3..4], bad);
            let [first, second] =
                [0..1, 1..2].map(|image| net.forward(bad.clone()).slice([image]).numbers());
            assert!(first.iter().any(|number| number.is_nan()), "an image with it shows it");
            assert!(second.iter().all(|number| number.is_finite()), "another image does not");
        }
    }
}

#[test]
fn a_config_survives_json() {
    for form in forms() {
        let text = serde_json::to_string(&form).expect("a config is written");
        let read: DualAutoencoderConfig = serde_json::from_str(&text).expect("and read");
        assert_eq!(read, form);
    }
    let wrong = serde_json::from_str::<DualAutoencoderConfig>(r#"{"width": 3}"#);
    assert!(wrong.unwrap_err().to_string().contains("unknown field `width`"));
}

#[test]
fn what_cannot_be_built_is_refused_by_name() {
    for (config, expected) in [
        (tiny().with_channels(0), "`channels` is 0; expected 1 to 4096"),
        (tiny().with_widths([4, 5000, 2]), "`widths[1]` is 5000; expected 1 to 4096"),
        (tiny().with_latent(0), "`latent` is 0; expected 1 to 4096"),
        (tiny().with_intervals(0), "its layers of splines cannot be built: "),
        (tiny().with_degree(16), "its layers of splines cannot be built: "),
        (
            tiny().with_output_range(Some([1.0, 1.0])),
            "`output_range` is [1, 1]; expected two finite numbers in ascending order",
        ),
        (
            tiny().with_output_range(Some([0.0, f32::NAN])),
            "`output_range` is [0, NaN]; expected two finite numbers in ascending order",
        ),
        (tiny().with_dropout(1.0), "`dropout` is 1; expected at least 0 and less than 1"),
    ] {
        let error = config.validate().expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_image_that_cannot_be_halved_three_times_is_refused() {
    let _alone = alone();
    let image = |height, width| tiny().check_image([height, width]);
    assert_eq!(image(128, 8), Ok(()));
    for (height, width) in [(0, 8), (8, 0), (12, 16), (16, 100)] {
        let expected = DualAutoencoderConfigError::Image { height, width };
        assert_eq!(image(height, width), Err(expected));
    }
    assert_eq!(
        image(12, 16).unwrap_err().to_string(),
        "an image of 12×16 cannot be halved three times; expected sides that are multiples of 8"
    );
}

#[test]
#[should_panic(expected = "an image of 12×16 cannot be halved three times")]
fn the_forward_pass_refuses_such_an_image() {
    let _alone = alone();
    let device = Device::flex();
    let _ = net(&tiny(), &device).forward(images(1, [12, 16], &device));
}

#[test]
#[should_panic(expected = "axis 1 expected 3, got 4")]
fn images_of_other_channels_are_refused() {
    let _alone = alone();
    let device = Device::flex();
    let _ = net(&tiny(), &device).forward(Tensor::ones([1, 4, 8, 8], &device));
}
