//! Counts of epochs that no run reaches.

use crate::plans::read_with;

#[test]
fn too_many_epochs_are_refused_when_the_configuration_is_read() {
    for epochs in ["9223372036854775807", "1000000001"] {
        let set = format!("train.epochs={epochs}");
        let error = read_with("", &[&set]).map(drop).expect_err("refused").to_string();
        let expected = format!("`train.epochs` is {epochs}; it must be at most 1000000000");
        assert!(error.ends_with(&expected), "{error}");
    }
    let error = read_with("[train]\nepochs = 2000000000\n", &[]).map(drop).expect_err("refused");
    assert!(error.to_string().starts_with("c.toml:2: `train.epochs` is 2000000000; "), "{error}");
    read_with("", &["train.epochs=1000000000"]).expect("a plan");
}
