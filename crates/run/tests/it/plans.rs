//! Plans: what is read, what is filled in, and what is written.

use std::path::Path;

use burn::tensor::Device;
use updraft_precision::Policy;
use updraft_run::{Ability, ConfigError, Plan, Planned, TASKS};

/// Reads a configuration as that of `c.toml`.
pub(crate) fn read_with(text: &str, sets: &[&str]) -> Result<Planned, ConfigError> {
    // Some settings are checked on the model, whose parameters are drawn.
    let _alone = updraft_testing::alone();
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Plan::read(TASKS, text, Path::new("c.toml"), &sets)
}

/// The same without overrides, and the plan alone.
pub(crate) fn read(text: &str) -> Result<Plan, ConfigError> {
    Ok(read_with(text, &[])?.plan)
}

/// A configuration of tables with a file, to which keys of `data` are added.
pub(crate) const ROWS: &str = "task = \"tables\"\n[targets]\ny = { kind = \"number\" }\n[data]\n\
                               source = \"files\"\nfiles = [\"a.csv\"]\n";

/// Prepends the task of tables.
pub(crate) fn table(text: &str) -> String {
    format!("task = \"tables\"\n{text}")
}

#[test]
fn a_plan_of_images_survives_being_written_then_read() {
    for text in [
        "",
        "precision = \"bf16-mixed\"\n[data]\nsource = \"archives\"\ntrain = \"a\"\ntest = \"b\"",
        "[data]\nsource = \"archives\"\ntrain = \"a\"\ntest = \"b\"\ninflate_to = \"c\"",
        "[data]\nsource = \"folders\"\n[train]\nworkers = 3\nclip_norm = 1.0\n",
        "[data]\nsource = \"manifest\"\ntrain = \"a.csv\"\nclass_column = \"kind\"\n\
         cache = { kind = \"none\" }",
        "[data]\nsource = \"cifar-10\"\nfiles = \"a.tar.gz\"\n\
         cache = { kind = \"file\", folder = \"c\" }",
        "[data]\nsource = \"cifar-100\"\nlabels = \"coarse\"\n\
         faults = { kind = \"quarantine\", at_most = 3, file = \"bad.jsonl\" }",
        "[data]\nfaults = { kind = \"skip\", at_most = 3 }\n[augment]\nrotate = 0.1\n\
         zoom = { min_factor = 0.9, max_factor = 1.1 }\nrandom_resized_crop = {}\n\
         color_jitter = { hue = 0.1 }\nmix_up = { alpha = 0.2 }",
        "precision = \"f16-mixed\"",
        "[train]\nrecompute = \"segments\"\nauto_batch = { budget_mib = 100 }",
        "[train]\nloss_scale = { kind = \"static\", scale = 1024.0 }",
        "[log]\ncsv = true\ntensorboard = true\nutilization = true",
        "[train]\naccumulate = 2\nkeep_best = 1\nema_decay = 0.99\nrecompute_batch_norms = \"all\"\n\
         criterion = \"test-loss\"\ntiming = \"done\"\nloss = { kind = \"focal\" }\n\
         non_finite = { kind = \"skip\", at_most = 3 }\nplateau = { patience = 3 }\n\
         early_stop = { patience = 2 }\nschedule = { kind = \"one-cycle\" }",
        "[train]\noptimizer = { kind = \"sgd\" }\nschedule = { kind = \"constant\" }",
        "[model]\nkind = \"separable\"\nchannels = 8\ndropout = 0.1",
        "[model]\nkind = \"single-pathway\"\nchannels = 8\ndropout = 0.1\nstem_stride = 2",
        "[model]\nkind = \"whitened\"\nwidths = [4, 6, 6]\nnorm_momentum = 0.3\n\
         head_scale = 0.5\nwhitening_epsilon = 0.01",
        "[augment]\nalternating_flip = true\n[train]\nlookahead = { every = 3 }\n\
         optimizer = { kind = \"sgd\", norm_bias_factor = 8.0 }\n\
         schedule = { kind = \"triangular\" }\n\
         freeze = [{ parameters = \"color_stem\", after_epochs = 0 }]",
        "[model]\nintegration_points = [\"early\", \"late\"]\nbrightness = \"bt601\"\ndepth = \"medium\"",
        "[model]\ndepth = \"deep\"\nchannels = 4\nbrightness = \"lab-lightness\"",
    ] {
        survives(text);
    }
}

#[test]
fn a_plan_of_tables_survives_being_written_then_read() {
    for text in [
        table(""),
        table("precision = \"bf16-mixed\"\n[model]\nkind = \"mlp\"\nhidden = [4]"),
        table(
            "[data]\nsource = \"formula\"\nformula = \"friedman1\"\nnoise = 0.1\n\
             [train]\nema_decay = 0.99",
        ),
        format!("{ROWS}features = [\"x\"]\ndelimiter = \"semicolon\"\ndir = \"here\""),
        format!("{ROWS}columns = [\"x\", \"y\"]\nfile_features = true\nhow_to_get = \"ask\""),
        format!(
            "{ROWS}features = [\"x\", \"z\"]\ncategories = [\"z\"]\ntest_fraction = 0.3\n\
             encoding = \"one-hot\"\nscaling = \"standard\""
        ),
        table(
            "[model]\nkind = \"kan\"\nhidden = []\noutside = \"extend\"\npenalty = { l1 = 0.1 }\n\
             [train]\nearly_stop = { patience = 2 }\n\
             plateau = { patience = 3 }\nclip_norm = 1.0\n[log]\ncsv = true",
        ),
    ] {
        survives(&text);
    }
}

fn survives(text: &str) {
    let plan = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let written = plan.to_toml();
    let again = read(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(plan.table(), again.table(), "{text}");
    assert_eq!(plan.train, again.train, "{text}");
    assert_eq!(plan.log, again.log, "{text}");
    assert_eq!(written, again.to_toml());
}

#[test]
fn a_plan_has_every_default_and_numbers_as_they_were_written() {
    let plan = read(
        "[augment]\nzoom = { min_factor = 0.9, max_factor = 1.1 }\nrandom_resized_crop = {}\n\
         [train]\nlabel_smoothing = 0.1\n",
    );
    let text = plan.expect("valid").to_toml();
    for line in [
        "min_factor = 0.9\n",
        "max_factor = 1.1\n",
        "min_area = 0.08\n",
        "label_smoothing = 0.1\n",
        "epochs = 10\n",
        "weight_decay = 0.01\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn a_set_with_faults_is_not_decoded_before_the_first_batch() {
    let cache = |text: &str| read(text).expect("valid").table()["data"]["cache"].to_string();
    assert_eq!(cache(""), "{ kind = \"whole\" }");
    let memory = "{ budget_mib = 1024, kind = \"memory\" }";
    assert_eq!(cache("data.cache = { kind = \"memory\" }"), memory);
    assert_eq!(cache("data.faults = { kind = \"skip\", at_most = 1 }"), memory);
}

#[test]
fn a_batch_that_was_found_to_fit_is_in_the_text_of_the_plan() {
    let mut plan = read("").expect("valid");
    plan.set_batch(96);
    assert_eq!(plan.train.batch, 96);
    assert!(plan.to_toml().contains("batch = 96\n"));
}

#[test]
fn narrow_gradients_have_a_loss_scale_by_default() {
    let scale = |text: &str| {
        let plan = read(text).expect("valid");
        plan.table()["train"]["loss_scale"]["kind"].as_str().map(str::to_owned)
    };
    assert_eq!(scale("").as_deref(), Some("none"));
    assert_eq!(scale("precision = \"bf16-mixed\"").as_deref(), Some("none"));
    assert_eq!(scale("precision = \"f16-mixed\"").as_deref(), Some("dynamic"));
}

#[test]
fn an_automatic_precision_is_stored_as_the_policy_of_the_device_with_the_reason() {
    let plan = read_with("", &["precision=auto", "device=flex"]).expect("valid").plan;
    let (policy, reason) = Policy::of_device(&Device::flex());
    assert_eq!(plan.precision, policy);
    assert_eq!(plan.table()["precision"].as_str(), Some(policy.to_string().as_str()));
    assert_eq!(plan.precision_note(), Some(format!("precision {policy}: {reason}").as_str()));
    let again = read(&plan.to_toml()).expect("valid");
    assert_eq!((again.precision, again.precision_note()), (policy, None));
}

#[test]
fn an_override_reaches_into_tables_with_toml_values_or_text() {
    let sets = ["train.epochs=5", "device=flex", "train.schedule.kind=constant"];
    let plan = read_with("[train]\nepochs = 3\n", &sets).expect("valid").plan;
    assert_eq!(plan.train.epochs, 5);
    assert_eq!(plan.device.to_string(), "flex");
    assert_eq!(plan.table()["train"]["schedule"]["kind"].as_str(), Some("constant"));
}

#[test]
fn every_task_has_a_trial_that_is_a_plan() {
    for kind in TASKS {
        let plan = read_with(kind.trial(), kind.without_dropout()).expect("valid").plan;
        assert_eq!(plan.kind().name(), kind.name());
    }
}

#[test]
fn what_a_task_cannot_do_is_what_its_plan_and_workload_refuse() {
    // Asking a trial draws parameters from the process's random state.
    let _alone = updraft_testing::alone();
    let no_batch_norms = (Ability::BatchNorms, "its model has no batch norms");
    let few_layers = (Ability::Segments, "its networks are a few small layers");
    let no_views = (Ability::Averaging, "it has no test-time augmentation");
    for (name, expected) in [
        ("image-classification", vec![]),
        (
            "image-to-image",
            vec![no_views, (Ability::Resident, "its patches are drawn on the host in every epoch")],
        ),
        ("tables", vec![no_views, few_layers, no_batch_norms]),
    ] {
        let kind = TASKS.iter().find(|kind| kind.name() == name).expect("a task");
        assert_eq!(kind.refusals().expect("its trial opens"), expected, "{name}");
    }
}

#[test]
fn a_setting_is_refused_for_the_models_that_cannot_and_allowed_for_the_others() {
    let _alone = updraft_testing::alone();
    let text = "task = \"image-to-image\"\n[data]\ntarget = \"input\"\npatch = [16, 16]\n";
    let unet = "model={ filters = [2, 4] }";
    let batch = "model={ filters = [2, 4], normalization = \"batch\" }";
    let dual = "model={ kind = \"dual-autoencoder\", widths = [8, 4, 4], latent = 2 }";
    let (norms, segments) = ("train.recompute_batch_norms=2", "train.recompute=segments");
    let no_norms = "its model has no batch norms";
    for (sets, reason) in [
        ([unet, segments], None),
        ([batch, norms], None),
        ([dual, norms], None),
        ([unet, norms], Some(no_norms)),
        ([dual, segments], Some("an autoencoder is not cut into segments")),
    ] {
        let refused = read_with(text, &sets).map(drop).err().map(|error| error.to_string());
        let is_right = match (&refused, reason) {
            (None, None) => true,
            (Some(text), Some(reason)) => text.ends_with(reason),
            _ => false,
        };
        assert!(is_right, "{sets:?}: {refused:?}");
    }
}

#[test]
fn autoencoders_without_splines_are_captured_for_int8() {
    // Their parameters are drawn.
    let _alone = updraft_testing::alone();
    let text = "task = \"image-to-image\"\n[data]\ntarget = \"input\"\npatch = [16, 16]\n";
    for core in ["none", "conv", "kan"] {
        let model = format!(
            "model={{ kind = \"dual-autoencoder\", widths = [8, 4, 4], latent = 2, core = \"{core}\" }}"
        );
        let plan = read_with(text, &[&model]).expect("valid").plan;
        match plan.task.quantizer() {
            Ok(quantizer) => drop(quantizer.graph().expect("captured")),
            Err(reason) => assert!(core == "kan" && reason.contains("KAN"), "{core}: {reason}"),
        }
    }
}

#[test]
fn generated_fields_are_as_large_as_a_patch_unless_the_config_says_otherwise() {
    let text = "task = \"image-to-image\"\n[data]\npatch = [32, 128, 64]\n";
    let read = |sets: &[&str]| read_with(text, sets).map(drop).map_err(|error| error.to_string());
    assert_eq!(read(&[]), Ok(()));
    let refused = read(&["data.sides=[24, 96, 96]"]).expect_err("smaller than the patch");
    assert!(refused.contains("at least the sides of a patch, [32, 128, 64]"), "{refused}");
}

#[test]
fn every_configuration_of_the_repository_is_a_plan() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut plans = 0;
    for entry in std::fs::read_dir(configs).expect("the folder of configurations") {
        let path = entry.expect("listed").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let planned = Plan::open(TASKS, &path, &[]);
            planned.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            plans += 1;
        }
    }
    assert!(plans > 5);
}

#[test]
fn the_built_in_quickstart_is_the_documented_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/quickstart.toml");
    let documented = std::fs::read_to_string(path).expect("the documented file");
    assert_eq!(TASKS[0].quickstart(), documented, "copy the file of `configs/` into the crate");
}

#[test]
fn only_files_that_opening_writes_make_ranks_wait() {
    for (text, expected) in [
        ("[data]\nsource = \"folders\"\n", false),
        ("[data]\nsource = \"folders\"\ncache = { kind = \"memory\" }\n", false),
        ("[data]\nsource = \"folders\"\ncache = { kind = \"file\", folder = \"c\" }\n", true),
        ("task = \"tables\"\n", false),
        ("task = \"masked-images\"\n", false),
    ] {
        let planned = read_with(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(planned.plan.task.writes_caches(), expected, "{text}");
    }
}
