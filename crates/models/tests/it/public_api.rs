//! Every promised name, used once: removing one breaks this file.

use updraft_models::{
    OutlierError, Perceptron, PerceptronConfig, PerceptronConfigError, SeparableConfig,
    SeparableConfigError, SeparableNet,
};

#[test]
fn the_names_of_the_separable_network_fit_together() {
    let _alone = updraft_testing::alone();
    let config = SeparableConfig::new(2, 1).with_stem_stride(2).with_dropout(0.5);
    let checked: Result<(), SeparableConfigError> = config.validate();
    assert_eq!(checked, Ok(()));
    let net: SeparableNet = config.init(&burn::tensor::Device::flex());
    assert!(net.multiply_adds([16, 16]) > 0);
    let refused: OutlierError = net.try_with_outliers(0.0).expect_err("no factor");
    assert!(refused.to_string().contains("is 0; expected a positive number"));
}

#[test]
fn the_names_of_the_perceptron_fit_together() {
    let _alone = updraft_testing::alone();
    let device = burn::tensor::Device::flex();
    let config = PerceptronConfig::new([3, 2]);
    let checked: Result<(), PerceptronConfigError> = config.validate();
    assert_eq!(checked, Ok(()));
    let net: Perceptron = config.init(&device);
    assert_eq!(net.forward(burn::tensor::Tensor::ones([5, 3], &device)).dims(), [5, 2]);
}
