//! What is recorded of the convolutions of a forward pass.

use burn::nn::PaddingConfig2d;
use burn::nn::conv::{
    Conv1dConfig, Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig, ConvTranspose3dConfig,
};
use burn::tensor::{Device, Distribution, Tensor};
use updraft_conv::slices::{Algorithm, ConvGeometry, ConvShape, Isa, Pass, strategy};
use updraft_conv::{
    Conv1d, Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d, LayerPath, observe_convolutions,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

#[test]
fn the_convolutions_of_a_forward_pass_are_observed_in_their_order() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let config = Conv2dConfig::new([4, 6], [3, 3])
        .with_stride([2, 1])
        .with_groups(2)
        .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
    let conv = Conv2d::new(&config, &device);
    let line = Conv1d::from(Conv1dConfig::new(2, 3, 5).init(&device));
    let run = || {
        let _ = line.forward(random([1, 2, 9], &device));
        let ((), inside) =
            observe_convolutions(|| drop(conv.forward(random([2, 4, 7, 8], &device))));
        assert_eq!(inside.len(), 1, "an observation within another is its own");
        let _ = conv.forward(random([3, 4, 7, 8], &device));
    };
    let ((), observed) = observe_convolutions(run);
    assert_eq!(observed.len(), 2);
    let [of_line, of_conv] = [&observed[0], &observed[1]];
    assert_eq!((of_line.weight, &of_line.input[..]), (line.weight.id, &[1, 9][..]));
    assert_eq!((of_line.channels, &of_line.kernel[..]), ([2, 3], &[1, 5][..]));
    assert_eq!((of_conv.weight, &of_conv.input[..]), (conv.weight.id, &[7, 8][..]));
    assert_eq!((of_conv.batch, of_conv.channels, of_conv.groups), (3, [4, 6], 2));
    assert_eq!([&of_conv.kernel[..], &of_conv.stride, &of_conv.dilation], [[3, 3], [2, 1], [1, 1]]);
    let shape = ConvShape {
        groups: 2,
        stride: [2, 1],
        padding: [1, 1],
        ..ConvShape::new(3, [4, 6], [7, 8], [3, 3])
    };
    let geometry = ConvGeometry::try_new(shape).expect("valid");
    for pass in Pass::ALL {
        let expected = strategy(Isa::Portable, &geometry, pass);
        assert_eq!(of_conv.strategy(Isa::Portable, pass), expected);
    }
    // Nothing is recorded without an observer.
    let _ = conv.forward(random([3, 4, 7, 8], &device));
    assert_eq!(observe_convolutions(|| ()).1, []);
}

#[test]
fn volumes_and_transposed_convolutions_are_observed_with_the_passes_of_the_layer() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let volume = Conv3d::new(&Conv3dConfig::new([2, 3], [3, 2, 1]), &device);
    let config = ConvTranspose3dConfig::new([4, 2], [2, 2, 2]).with_stride([2, 2, 2]);
    let up = ConvTranspose3d::new(&config, &device);
    let config = ConvTranspose2dConfig::new([16, 1], [1, 1]);
    let image = ConvTranspose2d::new(&config, &device);
    let plain = Conv3d::new(&Conv3dConfig::new([1, 1], [1, 1, 1]), &device);
    let plain = plain.with_path(LayerPath::Plain);
    let run = || {
        let _ = volume.forward(random([1, 2, 5, 6, 7], &device));
        let _ = up.forward(random([1, 4, 3, 4, 5], &device));
        let _ = image.forward(random([2, 16, 3, 8], &device));
        let _ = plain.forward(random([1, 1, 2, 2, 2], &device));
    };
    let ((), observed) = observe_convolutions(run);
    let told: Vec<_> = observed
        .iter()
        .map(|seen| (seen.weight, seen.is_transposed, seen.channels, seen.input.clone()))
        .collect();
    let expected = [
        (volume.weight.id, false, [2, 3], vec![5, 6, 7]),
        (up.weight.id, true, [4, 2], vec![3, 4, 5]),
        (image.weight.id, true, [16, 1], vec![3, 8]),
    ];
    assert_eq!(told, expected);
    assert_eq!((&observed[1].stride[..], &observed[2].kernel[..]), (&[2; 3][..], &[1, 1][..]));
    // Forward, 16 channels become 1: rows of 8 pixels; their gradient has lanes for 16 channels.
    let passes = Pass::ALL.map(|pass| observed[2].strategy(Isa::Avx512, pass).algorithm);
    assert_eq!(passes, [Algorithm::DirectByChannel; 3]);
    let passes = Pass::ALL.map(|pass| observed[2].strategy(Isa::Portable, pass).algorithm);
    let by_pixel = Algorithm::DirectByPixel;
    assert_eq!(passes, [by_pixel, by_pixel, Algorithm::DirectByChannel]);
    // The stride is one of the convolution whose gradient the forward pass is.
    let passes = Pass::ALL.map(|pass| observed[1].strategy(Isa::Portable, pass).algorithm);
    assert_eq!(passes, [Algorithm::DirectByChannel; 3]);
}
