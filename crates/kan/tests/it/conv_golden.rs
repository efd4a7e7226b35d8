//! Convolutions compared with torch-conv-kan's formula, whose outputs `tests/golden/make.py` has
//! stored.

use serde_json::Value;
use updraft_kan::slices::{
    Activation, BaseBranch, ConvAxis, ConvGeometry, Grid, Isa, Scratch, Weights, conv_forward,
};

fn numbers(case: &Value, name: &str) -> Vec<f64> {
    let numbers = case[name].as_array().expect(name).iter();
    numbers.map(|number| number.as_f64().expect(name)).collect()
}

fn size(case: &Value, name: &str) -> usize {
    case[name].as_u64().expect(name) as usize
}

#[test]
fn outputs_are_those_of_torch_conv_kan() {
    let cases: Value = serde_json::from_str(include_str!("../golden/torch_conv_kan.json"))
        .expect("golden numbers");
    for case in cases.as_array().expect("cases") {
        let sizes =
            |name| numbers(case, name).iter().map(|&size| size as usize).collect::<Vec<_>>();
        let (shape, channels) = (sizes("shape"), sizes("channels"));
        let grid = Grid::uniform(-1.0, 1.0, size(case, "intervals"), size(case, "degree"))
            .expect("a grid");
        let axis = ConvAxis {
            kernel: size(case, "kernel"),
            stride: size(case, "stride"),
            padding: size(case, "padding"),
            dilation: size(case, "dilation"),
        };
        let geometry = ConvGeometry::try_new(
            grid,
            [channels[0], channels[1]],
            size(case, "groups"),
            &vec![axis; shape.len()],
            Activation::Silu,
            BaseBranch::ConvOfActivation,
        )
        .expect("a convolution");
        // Exact: the weights were rounded to f32 before.
        let narrow =
            |name| numbers(case, name).iter().map(|&number| number as f32).collect::<Vec<_>>();
        let (x, base, spline) = (narrow("x"), narrow("base"), narrow("spline"));
        let weights = Weights { spline: &spline, base: Some(&base), ..Weights::default() };
        let expected = numbers(case, "y");
        let most = expected.iter().fold(0.0_f64, |most, y| most.max(y.abs()));
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let (mut y, mut scratch) = (vec![0.0; expected.len()], Scratch::new());
            conv_forward(isa, &geometry, weights, &x, &shape, &mut y, &mut scratch, 1)
                .expect("fits");
            for (y, expected) in y.iter().zip(&expected) {
                let error = (f64::from(*y) - expected).abs() / most;
                assert!(error < 2e-6, "{isa}, {}: {error}", case["name"]);
            }
        }
    }
}
