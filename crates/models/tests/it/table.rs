//! Networks for tables in two parts: the embeddings of a row, and the layers behind them.

use burn::tensor::{Int, Tensor};
use updraft_models::{
    Head, InteractionConfig, RowFeatures, SplineNetConfig, TableNetConfig, Trunk,
};
use updraft_testing::{assert_close, devices, tolerance};

#[test]
fn both_parts_have_the_outputs_of_the_whole() {
    let _alone = updraft_testing::alone();
    for device in devices() {
        let heads = vec![Head::Numbers(1), Head::Classes(3)];
        let classes = Tensor::<2, Int>::from_ints([[1, 2], [4, 0]], &device);
        let numbers = Tensor::<2>::from_floats([[0.5, -1.0], [2.0, 0.25]], &device);
        let features = || RowFeatures { class_counts: vec![5, 3], numbers: 2 };
        macro_rules! check {
            ($config:expr) => {{
                let config = $config;
                let network = config.init(&device);
                let whole = network.forward(classes.clone(), numbers.clone());
                let embedded = network.embed(classes.clone(), numbers.clone());
                assert_eq!(embedded.dims(), [2, config.inputs()]);
                let outputs = network.forward_embedded(embedded);
                assert_eq!(outputs.len(), whole.len());
                for (output, whole) in outputs.iter().zip(whole) {
                    let expected: Vec<f64> = whole.into_data().iter().collect();
                    assert_close(output, &expected, tolerance::F32);
                }
            }};
        }
        check!(TableNetConfig::new(features(), heads.clone()).with_frequencies(3));
        let residual = TableNetConfig::new(features(), heads.clone()).with_hidden([8, 8]);
        check!(residual.with_trunk(Trunk::Residual));
        check!(InteractionConfig::new(features(), heads.clone()).with_embedding(6).with_hidden(8));
        check!(SplineNetConfig::new(features(), heads.clone()));
    }
}
