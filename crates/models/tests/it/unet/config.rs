//! Sizes, outputs and errors that a configuration decides.

use burn::tensor::{Device, Tensor};
use updraft_models::{
    Downsampling, UNetBlock, UNetConfig, UNetConfigError, UNetNormalization, Upsampling,
};

use super::formula::{input, trained};

#[test]
fn published_sizes_have_the_published_numbers_of_parameters() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let residual = UNetConfig::new(1, 1, &[16, 32, 64]);
    assert_eq!(trained(&residual.init_2d(&device)), 119_825);
    assert_eq!(trained(&residual.init_3d(&device)), 342_321);
    let plain = |filters: &[usize]| {
        UNetConfig::new(1, 1, filters)
            .with_block(UNetBlock::Plain)
            .with_normalization(UNetNormalization::Batch)
            .with_downsampling(Downsampling::MaxPool)
            .with_upsampling(Upsampling::Transposed, true)
            .with_negative_slope(0.0)
    };
    assert_eq!(trained(&plain(&[8, 16, 32, 64]).init_2d(&device)), 121_033);
    assert_eq!(trained(&plain(&[6, 12, 24]).init_3d(&device)), 48_019);
}

#[test]
fn deep_outputs_begin_with_the_output_and_have_its_sides() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let config = UNetConfig::new(1, 2, &[2, 3, 4, 5]).with_deep_supervision(2);
    let network = config.init_2d(&device);
    let x = input([1, 1, 16, 24], &device);
    let outputs = network.forward_deep(x.clone());
    assert_eq!(outputs.len(), 3);
    assert!(outputs.iter().all(|output| output.dims() == [1, 2, 16, 24]));
    assert_eq!(outputs[0].to_data(), network.forward(x).to_data());
}

#[test]
fn multiply_adds_are_those_of_the_layers_by_hand() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    // Sides 8 and 4; a level of two filters, one of three.
    let encoder = (9 * 2 + 9 * 2 * 2 + 2) * 64 + (9 * 2 * 3 + 9 * 3 * 3 + 2 * 3) * 16;
    let decoder = 4 * 3 * 2 * 16 + (9 * 4 * 2 + 9 * 2 * 2) * 64;
    let network = UNetConfig::new(1, 1, &[2, 3]).init_2d(&device);
    assert_eq!(network.multiply_adds::<4>(&[8, 8]), encoder + decoder + 2 * 64);
    let plain = UNetConfig::new(1, 1, &[2, 3])
        .with_block(UNetBlock::Plain)
        .with_downsampling(Downsampling::MaxPool)
        .with_upsampling(Upsampling::Linear, true);
    let encoder = (27 * 2 + 27 * 2 * 2) * 512 + (27 * 2 * 3 + 27 * 3 * 3) * 64;
    let decoder = 3 * 2 * 64 + (27 * 4 * 2 + 27 * 2 * 2) * 512;
    let counted = plain.init_3d(&device).multiply_adds::<5>(&[8, 8, 8]);
    assert_eq!(counted, encoder + decoder + 2 * 512);
}

#[test]
fn every_value_out_of_range_is_named() {
    let good = UNetConfig::new(1, 1, &[4, 8]);
    assert_eq!(good.validate(), Ok(()));
    let grouped = |groups| good.clone().with_normalization(UNetNormalization::Group(groups));
    for (config, name) in [
        (UNetConfig::new(0, 1, &[4, 8]), "`in_channels` is 0"),
        (UNetConfig::new(1, 5000, &[4, 8]), "`out_channels` is 5000"),
        (UNetConfig::new(1, 1, &[4]), "`filters` has 1 level; expected 2 to "),
        (UNetConfig::new(1, 1, &[4, 0]), "`filters[1]` is 0"),
        (grouped(0), "the 0 groups"),
        (grouped(8), "`filters[0]` is 4; expected a multiple of the 8 groups"),
        (good.clone().with_negative_slope(f64::NAN), "`negative_slope` is NaN"),
        (good.clone().with_deep_supervision(1), "`deep_supervision` is 1; expected at most 0"),
    ] {
        let error: UNetConfigError = config.validate().expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
#[should_panic(expected = "axis 3 of the input is 10; expected a multiple of 4, such as 12")]
fn a_side_that_cannot_be_halved_is_refused() {
    let _alone = updraft_testing::alone();
    let device = Device::flex();
    let network = UNetConfig::new(1, 1, &[2, 2, 2]).init_2d(&device);
    let _ = network.forward(Tensor::<4>::zeros([1, 1, 8, 10], &device));
}
