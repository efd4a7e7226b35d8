//! Which configurations are accepted, and what is said about the others.

use updraft_integration::{DualPathwayConfig, GateKind, IntegrationPoint, Normalization};

fn refusal(config: &DualPathwayConfig) -> String {
    config.validate().expect_err("the configuration is wrong").to_string()
}

fn base() -> DualPathwayConfig {
    DualPathwayConfig::new(10, 8)
}

fn normalized(mean: [f64; 3], std: [f64; 3]) -> DualPathwayConfig {
    base().with_normalization(Normalization { mean, std })
}

#[test]
fn a_value_out_of_range_is_refused_by_name() {
    use IntegrationPoint::{All, Early};

    let cases = [
        (DualPathwayConfig::new(1, 8), "`classes` is 1; a classifier needs at least 2"),
        (DualPathwayConfig::new(10, 0), "`channels` is 0; expected 1 to 4096"),
        (DualPathwayConfig::new(10, 4097), "`channels` is 4097; expected 1 to 4096"),
        (base().with_stem_stride(3), "`stem_stride` is 3; expected 1 (full size) or 2 (half size)"),
        (base().with_dropout(1.0), "`dropout` is 1; expected at least 0 and less than 1"),
        (base().with_dropout(f64::NAN), "`dropout` is NaN; expected at least 0 and less than 1"),
        (
            base().with_integration_points(vec![Early, Early]),
            "`integration_points` lists `early` although another entry covers it; remove one",
        ),
        (
            base().with_integration_points(vec![Early, All]),
            "`integration_points` lists `early` although another entry covers it; remove one",
        ),
        (
            normalized([0.0; 3], [1.0, 0.0, 1.0]),
            "`normalization.std[1]` is 0; expected a finite value above 0",
        ),
        (
            normalized([0.0, 0.0, f64::INFINITY], [1.0; 3]),
            "`normalization.mean[2]` is inf; expected a finite value",
        ),
    ];
    for (config, message) in cases {
        assert_eq!(refusal(&config), message);
    }
}

#[test]
#[should_panic(expected = "`stem_stride` is 0; expected 1 (full size) or 2 (half size)")]
fn init_refuses_what_validate_refuses() {
    let _alone = updraft_testing::alone();
    let _ = base().with_stem_stride(0).init(&burn::tensor::Device::flex());
}

#[test]
fn a_configuration_survives_its_text() {
    let config = base()
        .with_dropout(0.25)
        .with_stem_stride(2)
        .with_integration_points(vec![IntegrationPoint::Early])
        .with_gate(GateKind::Adaptive)
        .with_normalization(Normalization { mean: [0.5; 3], std: [0.25; 3] });
    let text = serde_json::to_string(&config).expect("plain values");
    assert!(text.contains(r#""gate":"adaptive""#), "{text}");
    assert_eq!(serde_json::from_str::<DualPathwayConfig>(&text).expect("just written"), config);
}

#[test]
fn the_short_text_means_the_defaults() {
    let short: DualPathwayConfig =
        serde_json::from_str(r#"{ "classes": 10, "channels": 8 }"#).expect("the rest is optional");
    assert_eq!(short, base());
    assert_eq!(short.gate, GateKind::Static);
}

#[test]
fn an_unknown_key_is_refused() {
    let text = r#"{ "classes": 10, "channels": 8, "chanels": 9 }"#;
    let error = serde_json::from_str::<DualPathwayConfig>(text).expect_err("a misspelled key");
    assert!(error.to_string().contains("unknown field `chanels`"), "{error}");
}
