//! Unknown keys, and keys that the other settings make useless.

use crate::plans::{ROWS, read, read_with, table};

#[test]
fn a_key_that_nothing_reads_beside_the_others_is_refused_with_what_decides_it() {
    for (text, key, beside) in [
        ("[data]\nsource = \"folders\"\ncue = \"color\"", "data.cue", "data.source = \"folders\""),
        ("[data]\ndir = \"here\"", "data.dir", "data.source = \"generated\""),
        ("[data]\nhow_to_get = \"ask\"", "data.how_to_get", "data.source = \"generated\""),
        (
            "[data]\nsource = \"cifar-10\"\nlabels = \"fine\"",
            "data.labels",
            "data.source = \"cifar-10\"",
        ),
        ("[data]\nsource = \"folders\"\nfiles = \"a\"", "data.files", "data.source = \"folders\""),
        (
            "[data]\nsource = \"folders\"\ninflate_to = \"a\"",
            "data.inflate_to",
            "data.source = \"folders\"",
        ),
        (
            "[data]\nsource = \"folders\"\ntest = \"a\"\ntest_fraction = 0.5",
            "data.test_fraction",
            "data.test = \"a\"",
        ),
        ("[data]\npath_column = \"a\"", "data.path_column", "data.source = \"generated\""),
        ("[data]\nclass_column = \"a\"", "data.class_column", "data.source = \"generated\""),
        (
            "[model]\nkind = \"separable\"\nbrightness = \"bt601\"",
            "model.brightness",
            "model.kind = \"separable\"",
        ),
        (
            "[model]\nkind = \"whitened\"\nchannels = 8",
            "model.channels",
            "model.kind = \"whitened\"",
        ),
        (
            "[train]\nnon_finite = { kind = \"stop\", at_most = 3 }",
            "train.non_finite.at_most",
            "train.non_finite.kind = \"stop\"",
        ),
        (
            "[data]\nfaults = { kind = \"raise\", at_most = 3 }",
            "data.faults.at_most",
            "data.faults.kind = \"raise\"",
        ),
        (
            "[data]\nfaults = { kind = \"skip\", at_most = 3, file = \"a\" }",
            "data.faults.file",
            "data.faults.kind = \"skip\"",
        ),
        (
            "[data]\ncache = { kind = \"whole\", budget_mib = 3 }",
            "data.cache.budget_mib",
            "data.cache.kind = \"whole\"",
        ),
        (
            "[data]\ncache = { kind = \"none\", folder = \"a\" }",
            "data.cache.folder",
            "data.cache.kind = \"none\"",
        ),
        (
            "[data]\nresize = { kind = \"stretch\", factor = 1.1 }",
            "data.resize.factor",
            "data.resize.kind = \"stretch\"",
        ),
        (
            "[train]\nschedule = { kind = \"constant\", warmup = 0.1 }",
            "train.schedule.warmup",
            "train.schedule.kind = \"constant\"",
        ),
        (
            &ROWS.replace(
                "kind = \"number\"",
                "kind = \"number\", loss = { kind = \"mean-squared-error\", delta = 2.0 }",
            ),
            "targets.y.loss.delta",
            "targets.y.loss.kind = \"mean-squared-error\"",
        ),
        (
            &ROWS.replace(
                "kind = \"number\"",
                "kind = \"labels\", loss = { kind = \"binary-cross-entropy\", class_weights = 1 }",
            ),
            "targets.y.loss.class_weights",
            "targets.y.loss.kind = \"binary-cross-entropy\"",
        ),
        (&table("[data]\nfiles = [\"a.csv\"]"), "data.files", "data.source = \"generated\""),
        (
            &format!("{ROWS}features = [\"x\"]\nnoise = 1.0"),
            "data.noise",
            "data.source = \"files\"",
        ),
        (
            &table("[model]\nkind = \"mlp\"\nintervals = 3"),
            "model.intervals",
            "model.kind = \"mlp\"",
        ),
    ] {
        let message = read(text).expect_err(text).to_string();
        let last = key.rsplit('.').next().expect("a name");
        let line = text.lines().position(|line| line.contains(last)).expect("in the text") + 1;
        let expected = format!(
            "c.toml:{line}: `{key}` is not read beside `{beside}`; leave it out or change that"
        );
        assert_eq!(message, expected, "{text}");
    }
}

#[test]
fn an_unknown_key_is_named_whole_with_the_key_that_is_like_it_or_those_there_are() {
    for (text, line, key, advice) in [
        ("seed = 1\n[train]\nepoch = 3\n", 3, "train.epoch", "did you mean `train.epochs`?"),
        ("sed = 1\n", 1, "sed", "did you mean `seed`?"),
        ("colour = 1\n", 1, "colour", "known here are `augment`, `data`, `device`, "),
        (
            "[augment]\nzoom = { scale = 3.0 }",
            2,
            "augment.zoom.scale",
            "known here are `max_factor`, `min_factor`",
        ),
        (
            "[augment]\ncolor_jitter = { contrats = 0.1 }",
            2,
            "augment.color_jitter.contrats",
            "did you mean `augment.color_jitter.contrast`?",
        ),
        (
            "[train]\nauto_batch = { leest = 4 }",
            2,
            "train.auto_batch.leest",
            "did you mean `train.auto_batch.least`?",
        ),
        (&table("[augment]\nflip = true"), 2, "augment", "known here are `data`, "),
        (
            &table("[train]\nlabel_smoothing = 0.1"),
            3,
            "train.label_smoothing",
            "`explain --keys TASK` lists the keys of a task",
        ),
    ] {
        let message = read(text).expect_err(text).to_string();
        let start = format!("c.toml:{line}: unknown key `{key}`; {advice}");
        assert!(message.starts_with(&start), "{text}: {message}");
        assert!(message.chars().count() < 180, "{message}");
    }
}

#[test]
fn a_key_of_the_file_can_be_removed_from_the_command_line() {
    let tuned = format!("{ROWS}test_fraction = 0.3\n[train]\nema_decay = 0.9\n");
    let of_files = "data.test_files=['b.csv']";
    let unread = read_with(&tuned, &[of_files]).err().expect("refused").to_string();
    assert!(unread.contains("`data.test_fraction` is not read beside"), "{unread}");
    let plan = read_with(&tuned, &[of_files, "data.test_fraction="]).expect("valid").plan;
    assert!(!plan.to_toml().contains("test_fraction"), "{}", plan.to_toml());
    let plan = read_with(&tuned, &["train.ema_decay="]).expect("valid").plan;
    assert_eq!(plan.train.ema_decay, None);
    read_with(&tuned, &["train.keep_best=2", "train.keep_best="]).expect("given, then removed");

    for (set, expected) in [
        (
            "data.test_fractoin=",
            "--set data.test_fractoin=: unknown key `data.test_fractoin`; did you mean \
             `data.test_fraction`?",
        ),
        (
            "train.lookahead=",
            "`--set train.lookahead=` removes `train.lookahead`, which the config does not give; \
             leave that out, or see what it gives with `explain`",
        ),
        ("data.files=", "`data.files` is missing; "),
    ] {
        let error = read_with(&tuned, &[set]).err().expect("refused").to_string();
        assert!(error.starts_with(expected), "{set}: {error}");
    }
}
