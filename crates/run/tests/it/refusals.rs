//! Configurations that are refused: the key that the user wrote, where, and what it must be.

use updraft_run::ConfigError;

use crate::plans::{ROWS, read, read_with, table};

/// Checks that the error names file, line and key, and what the value must be.
fn is_refused(text: &str, key: &str) {
    let message = read(text).err().unwrap_or_else(|| panic!("{text}: valid")).to_string();
    let last = key.rsplit('.').next().expect("a name");
    // The key's own line, or that of the table that it belongs to.
    let line = text.lines().position(|line| line.contains(last)).expect("the key is in the text");
    let start = format!("c.toml:{}: `{key}` is ", line + 1);
    assert!(message.starts_with(&start), "{text}: {message}");
    assert!(message.contains("; it must be "), "{text}: {message}");
    assert!(!message.ends_with('.') && !message.contains('\n'), "{text}: {message}");
}

#[test]
fn a_value_out_of_range_is_named_with_its_key_and_line() {
    for (text, key) in [
        ("name = \"a/b\"", "name"),
        ("name = \"\"", "name"),
        ("device = \"gpu\"", "device"),
        ("precision = \"f12\"", "precision"),
        ("precision = \"f16-mixed\"\ntrain.loss_scale = { kind = \"none\" }", "precision"),
        ("precision = \"bf16\"", "precision"),
        ("[train]\nloss_scale = { kind = \"dynamic\", growth = 1.0 }", "train.loss_scale.growth"),
        ("[train]\nloss_scale = { kind = \"static\", scale = 0 }", "train.loss_scale.scale"),
        ("[train]\nepochs = 0", "train.epochs"),
        ("[train]\nbatch = 1", "train.batch"),
        ("[train]\nlearning_rate = -1.0", "train.learning_rate"),
        ("[train]\nlearning_rate = inf", "train.learning_rate"),
        ("[train]\nlearning_rate = 1e-310", "train.learning_rate"),
        ("[train]\nlearning_rate = 1e-39", "train.learning_rate"),
        ("[train]\nlearning_rate = 1e39", "train.learning_rate"),
        ("[train]\nworkers = 257", "train.workers"),
        ("[train]\nworkers = \"many\"", "train.workers"),
        ("[train]\nclip_norm = 0.0", "train.clip_norm"),
        ("[train]\nread_every = 0", "train.read_every"),
        ("[train]\nread_every = \"all\"", "train.read_every"),
        ("[train]\nauto_batch = { least = 1 }", "train.auto_batch.least"),
        ("[train]\nauto_batch = { least = 0 }", "train.auto_batch.least"),
        ("[train]\nauto_batch = { least = 8, most = 4 }", "train.auto_batch.most"),
        ("[train]\nauto_batch = { head_room = 1.0 }", "train.auto_batch.head_room"),
        ("[train]\nema_decay = 1.0", "train.ema_decay"),
        ("[train]\naccumulate = 0", "train.accumulate"),
        ("[train]\nrecompute_batch_norms = \"some\"", "train.recompute_batch_norms"),
        ("[train]\nrecompute_batch_norms = 0", "train.recompute_batch_norms"),
        ("[train]\nearly_stop = { patience = 0 }", "train.early_stop.patience"),
        ("[train]\nplateau = { factor = 2.0, patience = 1 }", "train.plateau.factor"),
        ("[train]\nnon_finite = { kind = \"skip\", at_most = 0 }", "train.non_finite.at_most"),
        (
            "[train]\noptimizer = { kind = \"sgd\", weight_decay = -1.0 }",
            "train.optimizer.weight_decay",
        ),
        ("[train.schedule]\nkind = \"one-cycle\"\nwarmup = 1.0", "train.schedule.warmup"),
        ("[train]\ncheckpoint_every_steps = 0", "train.checkpoint_every_steps"),
        ("[train]\nkeep_checkpoints = 0", "train.keep_checkpoints"),
        ("[train]\nloss = { kind = \"focal\" }\nlabel_smoothing = 0.1", "train.label_smoothing"),
        ("[train]\nlabel_smoothing = 1.0", "train.label_smoothing"),
        ("[train]\nloss = { kind = \"focal\", gamma = -1.0 }", "train.loss.gamma"),
        ("augment.mix_up = { alpha = 0.2 }\ntrain.loss = { kind = \"focal\" }", "train.loss.kind"),
    ] {
        is_refused(text, key);
    }
}

#[test]
fn a_value_out_of_range_of_images_is_named_with_its_key_and_line() {
    for (text, key) in [
        ("[data]\nsource = \"web\"", "data.source"),
        ("[data]\nheight = 0", "data.height"),
        ("[data]\nwidth = 100000", "data.width"),
        ("[data]\ntrain_images = 0", "data.train_images"),
        ("[data]\ntest_images = 3", "data.test_images"),
        ("[data]\nsource = \"folders\"\ntest_fraction = 1.0", "data.test_fraction"),
        ("[data]\nsource = \"manifest\"\ntrain = \"a\"\ntest_fraction = 0.0", "data.test_fraction"),
        ("[data]\nstd = [0.0, 1.0, 1.0]", "data.std"),
        ("[data]\nmean = [nan, 1.0, 1.0]", "data.mean"),
        ("[data]\ncache = { kind = \"memory\", budget_mib = 0 }", "data.cache.budget_mib"),
        ("[data]\nfaults = { kind = \"skip\", at_most = 0 }", "data.faults.at_most"),
        (
            "[data]\nfaults = { kind = \"skip\", at_most = 1 }\ncache = { kind = \"whole\" }",
            "data.faults.kind",
        ),
        ("[model]\nchannels = 0", "model.channels"),
        ("[model]\nkind = \"separable\"\nchannels = 5000", "model.channels"),
        ("[model]\nkind = \"single-pathway\"\nchannels = 5000", "model.channels"),
        ("[model]\nkind = \"whitened\"\nwidths = [4, 0, 6]", "model.widths"),
        ("[model]\nkind = \"whitened\"\nnorm_momentum = 0.0", "model.norm_momentum"),
        ("[model]\nkind = \"whitened\"\nhead_scale = 0.0", "model.head_scale"),
        ("[model]\nkind = \"whitened\"\nwhitening_epsilon = 0.0", "model.whitening_epsilon"),
        ("[data]\nheight = 8\n[model]\nkind = \"whitened\"", "data.height"),
        ("[augment]\nflip = true\nalternating_flip = true", "augment.alternating_flip"),
        ("[train]\nlookahead = { every = 0 }", "train.lookahead.every"),
        ("[train]\nfreeze = [{ parameters = \"color_stem\" }]", "train.freeze"),
        (
            "[train]\noptimizer = { kind = \"sgd\", norm_bias_factor = 0.0 }",
            "train.optimizer.norm_bias_factor",
        ),
        ("[model]\nstem_stride = 3", "model.stem_stride"),
        ("[model]\ndropout = 1.0", "model.dropout"),
        ("[model]\nkind = \"separate\"", "model.kind"),
        ("[model]\nintegration_points = [\"all\", \"early\"]", "model.integration_points"),
        ("[augment]\ntranslate = 16", "augment.translate"),
        ("[augment]\nrotate = 181.0", "augment.rotate"),
        ("[augment]\nrotate = -1.0", "augment.rotate"),
        ("[augment]\nrotate = nan", "augment.rotate"),
        ("[augment]\nzoom = { min_factor = 1.1, max_factor = 1.0 }", "augment.zoom.min_factor"),
        (
            "[augment]\nrandom_resized_crop = { min_area = 0.0 }",
            "augment.random_resized_crop.min_area",
        ),
        ("[augment]\ncolor_jitter = { hue = 0.6 }", "augment.color_jitter.hue"),
        ("[augment]\nmix_up = { alpha = 0.0 }", "augment.mix_up.alpha"),
    ] {
        is_refused(text, key);
    }
}

#[test]
fn a_value_out_of_range_of_tables_is_named_with_its_key_and_line() {
    for (text, key) in [
        (table("[data]\nsource = \"web\""), "data.source"),
        (table("[data]\ntrain_rows = 3"), "data.train_rows"),
        (table("[data]\nsource = \"formula\"\nnoise = -1.0"), "data.noise"),
        (format!("{ROWS}features = [\"y\"]"), "data.features"),
        (format!("{ROWS}features = []"), "data.features"),
        (format!("{ROWS}features = [\"x\", \"x\"]"), "data.features"),
        (format!("{ROWS}features = \"x\""), "data.features"),
        (format!("{ROWS}columns = [\"x\"]"), "data.columns"),
        (format!("{ROWS}columns = [\"x\", \"y\", \"x\"]"), "data.columns"),
        (format!("{ROWS}features = [\"x\"]\ncategories = [\"z\"]"), "data.categories"),
        (format!("{ROWS}features = [\"x\"]\ntest_fraction = 1.0"), "data.test_fraction"),
        (table("[model]\nkind = \"tree\""), "model.kind"),
        (table("[model]\nhidden = [0]"), "model.hidden"),
        (table("[model]\nhidden = \"wide\""), "model.hidden"),
        (table("[model]\nhidden = [4]\nlayers = 2"), "model.layers"),
        (table("[model]\nkind = \"residual\"\nhidden = [4, 8]"), "model"),
        (table("[model]\nkind = \"interaction\"\nhidden = [4]"), "model.hidden"),
        (table("[data]\nencoding = \"one-hot\"\nunknown_share = 0.1"), "data.unknown_share"),
        (format!("{ROWS}test_files = [\"b.csv\"]\nfile_features = true"), "data.file_features"),
        (table("[model]\nkind = \"kan\"\nintervals = 0"), "model.intervals"),
        (table("[model]\nkind = \"kan\"\ndegree = 16"), "model.degree"),
        (table("[model]\nkind = \"kan\"\ndomain = -1.0"), "model.domain"),
        (table("[train]\nbatch = 0"), "train.batch"),
        (table("[train]\nepochs = 0"), "train.epochs"),
    ] {
        is_refused(&text, key);
    }
}

#[test]
fn a_value_of_another_type_is_named_with_what_it_must_be() {
    for (text, expected) in [
        (
            "train.epochs = \"three\"",
            "`train.epochs` is \"three\"; it must be a whole number, at least 1",
        ),
        ("seed = \"one\"", "`seed` is \"one\"; it must be a whole number of at least 0"),
        (
            "train.batch = \"x\"",
            "`train.batch` is \"x\"; it must be `auto` or a whole number, at least 2: batch norms \
             need a variance",
        ),
        ("seed = -1", "`seed` is -1; it must be a whole number of at least 0"),
        (
            "train.learning_rate = \"fast\"",
            "`train.learning_rate` is \"fast\"; it must be a number above 0 in the range of f32, \
             1.2e-38 to 3.4e38",
        ),
        (
            "model.dropout = true",
            "`model.dropout` is true; it must be a number, at least 0 and below 1",
        ),
        ("log.csv = 1", "`log.csv` is 1; it must be `true` or `false`"),
        ("device = 3", "`device` is 3; it must be a text in quotes"),
        (
            "data.height = 32.5",
            "`data.height` is 32.5; it must be a whole number, 16 to 1024 pixels, for generated images",
        ),
        (
            "data = { source = \"folders\", height = 4 }",
            "`data.height` is 4; it must be 8 to 4096 pixels",
        ),
        (
            "data.height = 4",
            "`data.height` is 4; it must be 16 to 1024 pixels, for generated images",
        ),
        (
            "data.mean = [0.5]",
            "`data.mean` is [0.5]; it must be a list of three finite numbers, at most 3.4e38 as f32",
        ),
        (
            "data.source = 3",
            "`data.source` is 3; it must be one of `generated`, `archives`, `folders`, `manifest`, \
             `cifar-10`, `cifar-100`",
        ),
        ("augment.zoom = 3", "`augment.zoom` is 3; it must be a table"),
        (
            "augment.zoom = { min_factor = 0.9 }",
            "`augment.zoom` is { min_factor = 0.9 }; it must be a table with `max_factor`",
        ),
        (
            "train.optimizer = \"sgd\"",
            "`train.optimizer` is \"sgd\"; it must be a table with `kind`: one of `adamw`, `adam`, `sgd`",
        ),
        (
            "train.optimizer = { momentum = 0.9 }",
            "`train.optimizer` is { momentum = 0.9 }; it must be a table with `kind`: one of `adamw`, `adam`, `sgd`",
        ),
        (
            "train.optimizer = { kind = \"adamax\" }",
            "`train.optimizer.kind` is \"adamax\"; it must be one of `adamw`, `adam`, `sgd`",
        ),
        (
            "train.loss = \"focal\"",
            "`train.loss` is \"focal\"; it must be a table with `kind`: one of `cross-entropy`, \
             `focal`, `binary-cross-entropy`, `asymmetric`, `mean-squared-error`",
        ),
        (
            "train.plateau = { factor = \"half\", patience = 2 }",
            "`train.plateau.factor` is \"half\"; it must be a number",
        ),
        (
            "train.schedule = { kind = \"one-cycle\", warmup = true, floor = 0.1 }",
            "`train.schedule.warmup` is true; it must be a number",
        ),
        (
            "train.criterion = \"foo\"",
            "`train.criterion` is \"foo\"; it must be `train-` or `test-` and a metric, as in \
             `test-loss`",
        ),
        (
            "train.auto_batch = { least = 0 }",
            "`train.auto_batch.least` is 0; it must be at least 2: batch norms need a variance",
        ),
        (
            "train.auto_batch = { least = 5000 }",
            "`train.auto_batch.most` is 4096; it must be at least `train.auto_batch.least`, which is 5000",
        ),
        (
            "train.workers = -1",
            "`train.workers` is -1; it must be `auto` or a whole number from 0 to 256",
        ),
        ("train = 3", "`train` is 3; it must be a table, such as `[train]` with keys below it"),
    ] {
        let message = read(text).expect_err(text).to_string();
        assert_eq!(message, format!("c.toml:1: {expected}"), "{text}");
    }
    let message = read("\n\n[train]\n# more\nepochs = \"x\"").expect_err("a text").to_string();
    assert!(message.starts_with("c.toml:5: `train.epochs` is "), "{message}");
}

#[test]
fn a_long_value_is_cut_in_its_error() {
    let names: Vec<String> = (0..500).map(|at| format!("\"column-{at}\"")).collect();
    let text = format!("{ROWS}columns = [{}]", names.join(", "));
    let message = read(&text).expect_err("no target").to_string();
    assert!(
        message.contains("…; it must be a list of all columns, with the target `y`"),
        "{message}"
    );
    assert!(message.chars().count() < 300, "{message}");
}

#[test]
fn a_text_that_is_not_toml_names_its_line() {
    let message = read("seed = 1\nname = \n").expect_err("no value").to_string();
    assert!(message.starts_with("c.toml:2: "), "{message}");
}

#[test]
fn an_override_that_is_refused_is_named_without_a_line_of_the_file() {
    let of = |text: &str, set: &str| read_with(text, &[set]).err().expect("refused").to_string();
    let message = of("", "train.epoch=3");
    let expected = "--set train.epoch=3: unknown key `train.epoch`; did you mean `train.epochs`?";
    assert_eq!(message, expected);
    for given in ["", "train.epochs = 0", "train.epochs = 3"] {
        assert_eq!(
            of(given, "train.epochs=0"),
            "`train.epochs` is 0; it must be at least 1",
            "{given}"
        );
    }
    assert!(of("", "inherit=a.toml").starts_with("`inherit` is \"a.toml\"; it must be given in a"));
    assert!(matches!(read_with("", &["epochs"]), Err(ConfigError::Set { .. })));
    assert!(matches!(read_with("", &["=3"]), Err(ConfigError::Set { .. })));
}

#[test]
fn a_key_that_another_makes_necessary_is_named() {
    for (text, key, because) in [
        ("[data]\nsource = \"archives\"", "data.train", "`data.source = \"archives\"`"),
        ("[data]\nsource = \"manifest\"", "data.train", "`data.source = \"manifest\"`"),
        (&table("[data]\nsource = \"files\""), "targets", "`data.source = \"files\"`"),
        (
            &table("[data]\nsource = \"files\"\n[targets]\ny = { kind = \"number\" }"),
            "data.files",
            "`data.source = \"files\"`",
        ),
    ] {
        let message = read(text).expect_err(text).to_string();
        assert_eq!(message, format!("`{key}` is missing; {because} needs it"), "{text}");
    }
}

#[test]
fn a_criterion_that_the_task_does_not_measure_is_refused_with_those_it_does() {
    let text = table("[data]\nsource = \"formula\"\n[train]\ncriterion = \"test-accuracy\"");
    is_refused(&text, "train.criterion");
    let message = read(&text).expect_err("no such metric").to_string();
    assert!(
        message.ends_with(
            "it must be one of `test-loss`, `test-y-mae`, `test-y-rmse`, `test-y-r-squared`, \
             `train-loss`, `train-y-mae`, `train-y-rmse`, `train-y-r-squared`"
        ),
        "{message}"
    );
    is_refused("train.criterion = \"test-rmse\"", "train.criterion");
    is_refused("train.criterion = \"best\"", "train.criterion");
}

#[test]
fn a_setting_that_the_task_has_no_use_for_is_refused_with_the_reason() {
    for (setting, key, reason) in [
        ("recompute = \"segments\"", "train.recompute", "its networks are a few small layers"),
        (
            "recompute_batch_norms = 3",
            "train.recompute_batch_norms",
            "its model has no batch norms",
        ),
        (
            "recompute_batch_norms = \"all\"",
            "train.recompute_batch_norms",
            "its model has no batch norms",
        ),
    ] {
        let text = table(&format!("[train]\n{setting}"));
        is_refused(&text, key);
        let message = read(&text).expect_err(setting).to_string();
        let end = format!("it must be left out with task `tables`: {reason}");
        assert!(message.ends_with(&end), "{message}");
    }
    let utilization =
        read(&table("[log]\nutilization = true")).expect("tables count multiply-adds");
    assert!(utilization.log.utilization);
}
