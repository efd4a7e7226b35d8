//! Every promised name, used once: removing one breaks this file.

use updraft_integration::{
    Brightness, Depth, DualPathwayConfig, DualPathwayNet, IntegrationPoint, LumaStandard,
    NetworkConfigError, Normalization, Pathways, Place, StageWeights,
};

#[test]
fn the_promised_names_fit_together() {
    let _alone = updraft_testing::alone();
    let device = burn::tensor::Device::flex();
    let config = DualPathwayConfig::new(2, 1)
        .with_depth(Depth::Shallow)
        .with_stem_stride(2)
        .with_dropout(0.5)
        .with_integration_points(vec![IntegrationPoint::Late])
        .with_luma(LumaStandard::Bt601)
        .with_normalization(Normalization::default());
    let checked: Result<(), NetworkConfigError> = config.validate();
    assert_eq!(checked, Ok(()));
    let net: DualPathwayNet = config.init(&device);
    let brightness: Brightness = net.brightness();
    assert_eq!(brightness, Brightness::new(LumaStandard::Bt601, Normalization::default()));
    let weights: Vec<StageWeights> = net.weights();
    assert_eq!(weights.last().map(|weights| weights.stage), Some(Place::Pooled));
    assert!(net.parameter_count() > 0);
    let images = burn::tensor::Tensor::ones([2, 3, 16, 16], &device);
    let flow: Pathways = net.enter(images.clone());
    let flow = (0..net.segments()).fold(flow, |flow, index| net.segment(index, flow));
    assert!(net.leave(flow).into_data() == net.forward(images).into_data());
}
