//! Vision transformers and masked autoencoders.

use burn::module::Module;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use updraft_models::{
    DecoderConfig, DecoderKind, DenseTransformerConfig, EncoderConfig, MaskedAutoencoder,
    MaskedAutoencoderConfig, PatchMasks, Positions, VisionTransformerConfig, images_of_patches,
    patches_of_images, random_order,
};
use updraft_testing::{
    alone, assert_close, autodiff_devices, devices, in_dtype, parameter_gradient_check, scattered,
    tolerance,
};

const KINDS: [DecoderKind; 2] = [DecoderKind::SelfAttention, DecoderKind::CrossAttention];

fn config(sides: &[usize], patch: &[usize], kind: DecoderKind) -> MaskedAutoencoderConfig {
    let encoder = EncoderConfig::new(2, sides, patch).with_blocks(12, 2, 3);
    let decoder = DecoderConfig::new(kind).with_blocks(8, 2, 2);
    MaskedAutoencoderConfig::new(encoder).with_decoder(decoder)
}

/// Patches of some images, with a mask for each.
fn batch<const D: usize>(
    config: &MaskedAutoencoderConfig,
    count: usize,
    device: &Device,
) -> (Tensor<3>, PatchMasks) {
    let sides = &config.encoder.sides;
    let dims: [usize; D] = std::array::from_fn(|axis| match axis {
        0 => count,
        1 => 2,
        axis => sides[axis - 2],
    });
    let data = TensorData::new(scattered(5, dims.iter().product()), dims);
    let patches = patches_of_images(Tensor::<D>::from_data(data, device), &config.encoder.patch);
    let orders: Vec<Vec<usize>> =
        (0..count as u64).map(|seed| random_order(seed, config.encoder.patches())).collect();
    (patches, PatchMasks::new(&orders, config.visible(), device))
}

#[test]
fn masked_patches_of_images_and_volumes_are_predicted() {
    let _alone = alone();
    for device in devices() {
        for kind in KINDS {
            let flat = config(&[8, 12], &[4, 4], kind);
            let (patches, masks) = batch::<4>(&flat, 3, &device);
            // A quarter of 6 patches is rounded to 2.
            let found = flat.init(&device).forward(masks.take_visible(patches), &masks);
            assert_eq!(found.dims(), [3, 4, 2 * 16]);
            let deep = config(&[4, 6, 8], &[2, 3, 4], kind);
            let (patches, masks) = batch::<5>(&deep, 2, &device);
            let found = deep.init(&device).forward(masks.take_visible(patches.clone()), &masks);
            assert_eq!(found.dims(), [2, 6, 2 * 24]);
            let again = images_of_patches::<5>(patches, &[4, 6, 8], &[2, 3, 4]);
            assert_eq!(again.dims(), [2, 2, 4, 6, 8]);
        }
    }
}

#[test]
fn predictions_depend_on_positions_and_not_on_the_order_of_tokens() {
    let _alone = alone();
    for device in devices() {
        for kind in KINDS {
            let config = config(&[8, 16], &[4, 4], kind);
            let net = config.init(&device);
            let (patches, _) = batch::<4>(&config, 1, &device);
            let of = |order: Vec<usize>| {
                let masks = PatchMasks::new(&[order], config.visible(), &device);
                net.forward(masks.take_visible(patches.clone()), &masks)
            };
            let first = of(vec![3, 1, 0, 2, 4, 5, 6, 7]);
            let swapped = of(vec![1, 3, 2, 0, 4, 5, 6, 7]);
            assert_close(
                &first.clone().narrow(1, 0, 1),
                &swapped.clone().narrow(1, 1, 1),
                tolerance::F32,
            );
            assert_close(&first.clone().narrow(1, 2, 4), &swapped.narrow(1, 2, 4), tolerance::F32);
            // Two masked patches differ by their positions only.
            let [a, b] = [0, 1].map(|at| first.clone().narrow(1, at, 1));
            assert!((a - b).abs().max().into_scalar::<f32>() > 1e-3);
        }
    }
}

/// The parameters of a block of so many features, with three or, of cross-attention, the same
/// matrices for queries, keys and values.
const fn block(width: usize) -> usize {
    2 * 2 * width
        + (3 * width * width + 3 * width)
        + (width * width + width)
        + (4 * width * width + 4 * width)
        + (4 * width * width + width)
}

#[test]
fn parameters_are_as_many_as_counted_by_hand() {
    let _alone = alone();
    let device = Device::flex();
    let (numbers, patches, e, d) = (2 * 16, 6, 12, 8);
    let encoder = (numbers * e + e) + e + (1 + patches) * e + 2 * block(e) + 2 * e;
    let decoder = (e * d + d)
        + 2 * d
        + d
        + (1 + patches) * d
        + 2 * block(d)
        + 2 * d
        + (d * numbers + numbers);
    for kind in KINDS {
        let config = config(&[8, 12], &[4, 4], kind);
        assert_eq!(config.init(&device).num_params(), encoder + decoder);
    }
    let config = config(&[8, 12], &[4, 4], KINDS[0]);
    let classifier = VisionTransformerConfig::new(5, config.encoder).init(&device);
    assert_eq!(classifier.num_params(), encoder + 5 * e + 5);
}

#[test]
fn multiply_adds_are_as_many_as_counted_by_hand() {
    let _alone = alone();
    let device = Device::flex();
    let of_block =
        |width: u64, tokens: u64| 12 * width * width * tokens + 2 * tokens * tokens * width;
    // Two of six patches are visible, behind a class token.
    let (numbers, visible, masked) = (32, 2, 4);
    let encoder = numbers * 12 * visible + 2 * of_block(12, visible + 1);
    let ends = 12 * 8 * (visible + 1) + 8 * numbers * masked;
    let found = |kind| config(&[8, 12], &[4, 4], kind).init(&device).multiply_adds(2, 4);
    assert_eq!(found(KINDS[0]), encoder + ends + 2 * of_block(8, 7));
    let cross = 64 * (10 * masked + 2 * 3) + 2 * masked * 3 * 8;
    assert_eq!(found(KINDS[1]), encoder + ends + 2 * cross);
    let config = VisionTransformerConfig::new(5, config(&[8, 12], &[4, 4], KINDS[0]).encoder);
    let all = numbers * 12 * 6 + 2 * of_block(12, 7) + 12 * 5;
    assert_eq!(config.init(&device).multiply_adds(&[8, 12]), all);
}

#[test]
fn gradients_are_those_of_differences() {
    let _alone = alone();
    for device in autodiff_devices() {
        for (kind, positions) in [
            (KINDS[0], Positions::Learned),
            (KINDS[1], Positions::Learned),
            (KINDS[1], Positions::SineCosine),
        ] {
            let mut config = config(&[8, 12], &[4, 4], kind);
            config.encoder = config.encoder.with_positions(positions);
            let net = in_dtype(config.init(&device), FloatDType::F64);
            let (patches, masks) = batch::<4>(&config, 2, &device);
            let patches = patches.cast(FloatDType::F64);
            let loss = |net: &MaskedAutoencoder| {
                let found = net.forward(masks.take_visible(patches.clone()), &masks);
                (found - masks.take_masked(patches.clone())).square().mean()
            };
            let trainable = updraft_testing::parameter_gradients(&net, &loss(&net).backward());
            let fixed: Vec<_> = trainable.iter().filter(|found| found.values.is_none()).collect();
            match positions {
                Positions::Learned => {
                    assert!(fixed.is_empty(), "{fixed:?}");
                    parameter_gradient_check(&net, 2, tolerance::GRADIENT, loss);
                }
                // Sines and cosines are not trained.
                _ => assert!(
                    fixed.iter().all(|found| found.path.ends_with("positions")),
                    "{fixed:?}"
                ),
            }
        }
    }
}

#[test]
fn segments_in_their_order_are_the_forward_pass() {
    let _alone = alone();
    for device in devices() {
        for kind in KINDS {
            let config = config(&[8, 12], &[4, 4], kind);
            let net = config.init(&device);
            let (patches, masks) = batch::<4>(&config, 2, &device);
            let visible = masks.take_visible(patches);
            assert_eq!(net.segments(), 4);
            let flow =
                (0..4).fold((visible.clone(), None), |flow, at| net.segment(at, flow, &masks));
            let whole = net.forward(visible, &masks);
            assert!(net.leave(flow, &masks).into_data() == whole.into_data());
        }
    }
}

#[test]
fn a_classifier_sees_every_patch() {
    let _alone = alone();
    for device in devices() {
        let encoder = EncoderConfig::new(3, &[8, 8], &[4, 4]).with_blocks(12, 2, 3);
        let net = VisionTransformerConfig::new(4, encoder).init(&device);
        let data = TensorData::new(scattered(1, 2 * 3 * 64), [2, 3, 8, 8]);
        let images = Tensor::<4>::from_data(data, &device);
        let logits = net.forward(images.clone());
        assert_eq!(logits.dims(), [2, 4]);
        for corner in [0, 4] {
            let changed = images.clone().slice_assign(
                [0..2, 0..3, corner..corner + 1, 0..1],
                Tensor::full([2, 3, 1, 1], 9.0, &device),
            );
            let difference = (net.forward(changed) - logits.clone()).abs().max();
            assert!(difference.into_scalar::<f32>() > 1e-4);
        }
        assert!(
            VisionTransformerConfig::new(1, EncoderConfig::new(3, &[8, 8], &[4, 4]))
                .validate()
                .is_err()
        );
    }
}

#[test]
fn a_dense_transformer_predicts_every_position_from_its_token_and_the_others() {
    let _alone = alone();
    for device in devices() {
        let encoder = EncoderConfig::new(1, &[4, 8], &[4, 4]).with_blocks(12, 2, 3);
        let net = DenseTransformerConfig::new(2, encoder).init(&device);
        let data = TensorData::new(scattered(1, 64), [2, 1, 4, 8]);
        let images = Tensor::<4>::from_data(data, &device);
        let found = net.forward(images.clone());
        assert_eq!(found.dims(), [2, 2, 4, 8]);
        let tokens = (0..net.segments())
            .fold(net.enter(images.clone()), |tokens, at| net.forward_segment(at, tokens));
        assert!(net.forward_head::<4>(tokens).into_data() == found.clone().into_data());
        // A change of the left patch reaches the right one, by attention.
        let changed =
            images.slice_assign([0..2, 0..1, 0..1, 0..1], Tensor::full([2, 1, 1, 1], 9.0, &device));
        let right = |images: Tensor<4>| images.narrow(3, 4, 4);
        let difference = (right(net.forward(changed)) - right(found)).abs().max();
        assert!(difference.into_scalar::<f32>() > 1e-5);
        let encoder = EncoderConfig::new(1, &[4, 6, 8], &[2, 3, 4]).with_blocks(12, 1, 3);
        let deep = DenseTransformerConfig::new(3, encoder).init(&device);
        let found = deep.forward(Tensor::<5>::ones([1, 1, 4, 6, 8], &device));
        assert_eq!(found.dims(), [1, 3, 4, 6, 8]);
        assert_eq!(deep.multiply_adds(), {
            let encoder = 24 * 12 * 8 + 12 * 144 * 9 + 2 * 81 * 12;
            encoder + 12 * 3 * 24 * 8
        });
    }
}
