//! Numbers of a configuration that f32 does not have, where f32 computes with them.

use crate::plans::read_with;

/// Rows of a formula with a perceptron.
const ROWS: &str = "task = \"tables\"\n[data]\nsource = \"formula\"\n[model]\nkind = \"mlp\"\n";

#[test]
fn a_number_that_f32_does_not_have_is_refused_by_its_key() {
    let images = "[model]\nkind = \"single-pathway\"\n";
    let whitened = "[model]\nkind = \"whitened\"\n";
    let dual = "[model]\nkind = \"dual-pathway\"\n";
    let splines = "task = \"tables\"\n[data]\nsource = \"formula\"\n[model]\nkind = \"kan\"\n";
    let cases = [
        (images, "train.clip_norm", "1e-46"),
        (images, "train.clip_norm", "1e-44"),
        (images, "train.clip_norm", "1e300"),
        (ROWS, "train.clip_norm", "1e-39"),
        (images, "train.learning_rate", "1e-46"),
        (images, "data.std", "[1e-320, 1.0, 1.0]"),
        (images, "data.std", "[1.0, 1.0, 1e39]"),
        (images, "data.mean", "[1e300, 0.0, 0.0]"),
        (whitened, "data.mean", "[-1e300, 0.0, 0.0]"),
        (whitened, "model.head_scale", "1e-50"),
        (whitened, "model.whitening_epsilon", "1e-50"),
        (ROWS, "model.frequency_scale", "1e300"),
        (ROWS, "targets", "{y={kind='number',weight=1e-60}}"),
        (dual, "model.penalty", "{entropy=1e-160}"),
        (dual, "model.penalty", "{entropy=0.1,balance=1e-40}"),
        (dual, "model.penalty", "{balance=1e39}"),
        (splines, "model.penalty", "{l1=1e-160}"),
        (splines, "model.penalty", "{l1=0.1,roughness=1e300}"),
        (images, "train.loss_scale", "{kind='static',scale=1e300}"),
        (images, "train.loss_scale", "{kind='static',scale=1e-320}"),
        (images, "train.loss_scale", "{kind='dynamic',floor=1e-60}"),
        (images, "train.loss_scale", "{kind='dynamic',ceiling=1e60}"),
    ];
    for (text, key, value) in cases {
        let set = format!("{key}={value}");
        let error = read_with(text, &[&set]).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{set} is accepted"));
        assert!(error.contains(&format!("`{key}")), "{set}: {error}");
        assert!(error.contains("it must be") && error.contains("3.4e38"), "{set}: {error}");
    }
    for text in [dual, splines] {
        let set = "model.penalty={entropy=1e-30}";
        read_with(text, &[set]).unwrap_or_else(|error| panic!("{set}: {error}"));
    }
    for set in ["train.clip_norm=1e-30", "data.std=[1e-10, 1.0, 1.0]", "data.mean=[1e30, 0.0, 0.0]"]
    {
        read_with(images, &[set]).unwrap_or_else(|error| panic!("{set}: {error}"));
    }
}

#[test]
fn a_number_of_many_zeros_is_shown_with_an_exponent() {
    let images = "[model]\nkind = \"single-pathway\"\n";
    for (set, shown) in [
        ("train.loss_scale=1e-50", "`train.loss_scale` is 1e-50; it must be a table"),
        ("train.loss_scale={kind='static',scale=1e-50}", "scale` is 1e-50; it must be"),
        ("data.std=[1e-320, 1.0, 1.0]", "1e-320, "),
    ] {
        let error = read_with(images, &[set]).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{set} is accepted"));
        assert!(error.contains(shown) && !error.contains("0000"), "{set}: {error}");
    }
}
