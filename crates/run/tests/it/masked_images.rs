//! Masked images: masked autoencoders of generated cells and of files.

use std::fs;
use std::ops::ControlFlow;

use updraft_data::{CellsConfig, Raster, Volume, open_volume, write_cells, write_volume};
use updraft_run::{ComponentFiles, FilePrediction, Picture, Plan, RunFolder, TASKS, TrainedModel};
use updraft_trainer::Ending;

use crate::plans::read_with;
use crate::train::{Watcher, train, workload};

/// Generated cells in two dimensions with a network that trains in a moment.
const SMALL: &str = "task = \"masked-images\"\n\
    [data]\npatch = [16, 16]\npatches = 8\nsides = [32, 32]\ntrain_fields = 3\ntest_fields = 1\n\
    [model]\npatch = [4, 4]\nembedding = 8\nlayers = 2\nheads = 2\n\
    decoder = { kind = \"self-attention\", embedding = 8, layers = 2, heads = 2 }\n\
    [train]\nepochs = 2\nbatch = 4\n";

/// The same in three dimensions.
pub(crate) const VOLUMES: [&str; 4] =
    ["data.patch=[4, 16, 16]", "data.sides=[6, 24, 24]", "data.patches=4", "model.patch=[2, 4, 4]"];

pub(crate) fn plan(sets: &[&str]) -> Plan {
    read_with(SMALL, sets).expect("valid").plan
}

pub(crate) fn weights(folder: &RunFolder, plan: &Plan) -> Vec<u8> {
    let path = folder.served_checkpoint(plan).expect("a checkpoint");
    fs::read(path.join("model.safetensors")).expect("weights")
}

#[test]
fn every_network_trains_and_resumes_to_the_same_bits() {
    for sets in [
        vec![],
        VOLUMES.to_vec(),
        vec!["model.decoder.kind=cross-attention", "model.positions=learned"],
        vec!["model.target=normalized-pixels", "model.mask_ratio=0.5", "augment.flip=true"],
        vec!["train.recompute=segments", "train.accumulate=2", "data.scale.kind=unit"],
    ] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = plan(&sets);
        let whole = train(&plan, dir.path(), None, &mut Watcher::default());
        let mut stops = Watcher { stop_after: Some(2), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops);
        assert_eq!(stopped.ending, Ending::Stopped, "{sets:?}");
        let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
        assert!(weights(&resumed.folder, &plan) == weights(&whole.folder, &plan), "{sets:?}");
        for metric in ["loss", "zero-error", "mean-error", "r-squared"] {
            let score = |trained: &updraft_run::Trained| {
                trained.test.as_ref().expect("a score").value(metric)
            };
            assert!(score(&whole).is_some_and(f64::is_finite), "{sets:?} {metric}");
            assert_eq!(score(&resumed), score(&whole), "{sets:?} {metric}");
        }
    }
}

#[test]
fn recomputed_activations_train_to_the_same_bits() {
    for kind in ["self-attention", "cross-attention"] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let kind = format!("model.decoder.kind={kind}");
        let [kept, recomputed] = ["none", "segments"].map(|recompute| {
            let plan = plan(&[&kind, &format!("train.recompute={recompute}")]);
            weights(&train(&plan, dir.path(), None, &mut Watcher::default()).folder, &plan)
        });
        assert!(kept == recomputed, "{kind}");
    }
}

#[test]
fn products_in_bf16_train_and_resume_to_the_same_bits_and_others_than_in_f32() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let in_f32 = plan(&[]);
    let plan = plan(&["precision=bf16-products"]);
    let dir = tempfile::tempdir().expect("temporary folder");
    let (device, _) = crate::train::device();
    if let Err(refused) = plan.precision.check_device(&device) {
        // This processor has no unit for them.
        let error = crate::train::try_train(&plan, dir.path(), None, &mut Watcher::default())
            .expect_err("refused");
        assert!(error.to_string().contains(&refused.to_string()), "{error}");
        return;
    }
    let whole = train(&plan, dir.path(), None, &mut Watcher::default());
    let mut stops = Watcher { stop_after: Some(2), ..Watcher::default() };
    let stopped = train(&plan, dir.path(), None, &mut stops);
    let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
    assert!(weights(&resumed.folder, &plan) == weights(&whole.folder, &plan));
    let exact = train(&in_f32, dir.path(), None, &mut Watcher::default());
    assert!(weights(&exact.folder, &in_f32) != weights(&whole.folder, &plan), "products of f32");

    let score = |trained: &updraft_run::Trained| trained.test.as_ref().expect("a score").loss();
    let difference = (score(&whole) / score(&exact) - 1.0).abs();
    assert!(difference > 0.0 && difference < 0.02, "{difference}");
    // Loaded, it is evaluated with the products of its training.
    let poll = &mut |_| updraft_trainer::Control::Continue;
    let again = workload(&plan, Some(&whole.folder)).evaluate(&plan, &whole.folder, &device, poll);
    let again = again.expect("evaluated").expect("not stopped");
    assert_eq!(again.loss(), score(&whole));
}

#[test]
fn training_explains_a_part_of_what_is_masked() {
    let sets = [
        "data.sides=[64, 64]",
        "data.patches=64",
        "train.epochs=8",
        "train.batch=16",
        "train.learning_rate=0.003",
        "model.embedding=32",
        "model.decoder.embedding=32",
    ];
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = train(&plan(&sets), dir.path(), None, &mut Watcher::default());
    let test = trained.test.expect("a score");
    let value = |name| test.value(name).expect("defined");
    // The mean of all masked patches explains nothing by definition.
    assert!(value("r-squared") > 0.2, "{}", value("r-squared"));
    assert!(test.loss() < value("mean-error") && value("mean-error") <= value("zero-error"));
}

#[test]
fn pictures_show_visible_patches_prediction_and_truth() {
    for sets in [vec!["model.target=normalized-pixels"], VOLUMES.to_vec()] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let trained = train(&plan(&sets), dir.path(), None, &mut Watcher::default());
        let pictures = trained.folder.pictures().expect("pictures");
        let [Picture::Tiles { title, tiles, per_row }] = &pictures[..] else {
            panic!("{pictures:?}")
        };
        assert_eq!(*per_row, Some(3));
        assert_eq!(title.contains("not by the truth"), sets.len() == 1, "{title}");
        assert!(tiles.len() >= 3 && tiles.len().is_multiple_of(3), "{}", tiles.len());
        for captions in tiles.chunks(3) {
            assert!(captions[0].caption.starts_with("visible patches, "));
            assert!(captions[1].caption.starts_with("visible and predicted patches, "));
            assert!(captions[2].caption.starts_with("truth, "));
            assert!(captions.iter().all(|tile| (tile.height, tile.width) == (16, 16)));
            assert!(captions[0].png != captions[2].png && captions[1].png != captions[2].png);
        }
    }
}

#[test]
fn a_trained_network_reconstructs_whole_files() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    for (sides, sets) in [
        (vec![40, 56], vec!["model.mask_ratio=0.4"]),
        (vec![40, 24], vec!["model.target=normalized-pixels"]),
        (vec![7, 24, 28], VOLUMES.to_vec()),
    ] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let cells = CellsConfig { sides: sides.clone(), seed: 3 };
        let files = write_cells(dir.path(), &cells, 3, 1, &mut |_| {}).expect("written");
        // Targets in the manifest are not read.
        fs::copy(files.label_free, dir.path().join("volumes.csv")).expect("copied");
        let set = format!("data.dir={:?}", dir.path());
        let sets: Vec<&str> = sets.into_iter().chain([set.as_str()]).collect();
        let trained = train(&plan(&sets), dir.path(), None, &mut Watcher::default());
        let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");

        let input = dir.path().join("field002_transmitted.ome.tif");
        let reconstruct = |name: &str, batch| {
            let out = dir.path().join(name);
            let mut request = FilePrediction::new(&input, &out);
            (request.batch, request.truth) = (batch, Some(input.clone()));
            let written = model.predict_image(&request, &mut |_| ControlFlow::Continue(()));
            let written = written.expect("reconstructed");
            let volume = open_volume(&out, &Default::default()).expect("readable");
            (written, Volume::load(&*volume).expect("loaded"))
        };
        let (written, one) = reconstruct("one.ome.tif", 1);
        assert_eq!((written.sides, written.channels), (sides.clone(), 1));
        assert_eq!(written.metrics[0].spec.name, "pearson");
        assert!(written.metrics[0].value.is_some_and(f64::is_finite));
        let (_, three) = reconstruct("three.ome.tif", 3);
        let close = one.frames().iter().zip(three.frames()).all(|(one, three)| {
            let (updraft_data::Pixels::F32(one), updraft_data::Pixels::F32(three)) =
                (one.pixels(), three.pixels())
            else {
                return false;
            };
            one.iter().zip(three.iter()).all(|(a, b)| a.is_finite() && (a - b).abs() < 1e-4)
        });
        assert!(close, "{sides:?}");

        let refused = |change: &dyn Fn(&mut FilePrediction)| {
            let mut request = FilePrediction::new(&input, dir.path().join("no.ome.tif"));
            change(&mut request);
            let predicted = model.predict_image(&request, &mut |_| ControlFlow::Continue(()));
            predicted.expect_err("refused").to_string()
        };
        let said = refused(&|request| request.window = Some(vec![32; sides.len()]));
        assert!(said.contains("leave out --window"), "{said}");
        let said = refused(&|request| request.keeps_channels = true);
        assert!(said.contains("leave out --keep-channels"), "{said}");
        let said = refused(&|request| {
            let (labels, table) = (dir.path().join("l.tif"), dir.path().join("l.csv"));
            request.components = Some(ComponentFiles { labels, table });
        });
        assert!(said.contains("leave out --components"), "{said}");
        let colors = Raster::try_new(3, &[16, 16], vec![1_u8; 3 * 256]).expect("a raster");
        let colors = Volume::try_new("colors", vec![colors], [None; 3]).expect("a volume");
        let path = dir.path().join("colors.ome.tif");
        write_volume(&path, &colors, &Default::default()).expect("written");
        let said = refused(&|request| request.input = path.clone());
        assert!(
            said.contains(
                "its number of channels is 3; that of the images the run was trained on is 1"
            ),
            "{said}"
        );
    }
}

#[test]
fn settings_that_make_no_network_are_refused_with_what_is_accepted() {
    for (sets, said) in [
        (
            vec!["model.mask_ratio=0.0"],
            "`model.mask_ratio` is 0; it must be above 0 and below 1, with at least one token \
             visible and one masked; it leaves 16 of 16 visible",
        ),
        (vec!["model.mask_ratio=1.0"], "it leaves 0 of 16 visible"),
        (vec!["model.mask_ratio=0.99"], "it leaves 0 of 16 visible"),
        (vec!["model.mask_ratio=0.01"], "it leaves 16 of 16 visible"),
        (vec!["model.mask_ratio=-0.5"], "`model.mask_ratio` is -0.5; it must be above 0"),
        (
            vec!["data.patch=[16, 18]"],
            "`data.patch` is [16, 18]; it must be sides that tokens of `model.patch`, [4, 4], \
             tile: the width of an image is 18, which patches of 4 do not tile; the nearest are \
             16 and 20",
        ),
        (
            vec!["data.patch=[5, 16, 16]", "data.sides=[6, 24, 24]", "model.patch=[2, 4, 4]"],
            "the depth of an image is 5, which patches of 2 do not tile; the nearest are 4 and 6",
        ),
        (
            vec!["model.patch=[2, 4, 4]"],
            "`model.patch` is [2, 4, 4]; it must be 2 sides, as `data.patch` is [16, 16]",
        ),
        (
            vec!["model.heads=3"],
            "`model.heads` is 3; it must be a divisor of `model.embedding`, which is 8",
        ),
        (
            vec!["model.decoder.heads=5"],
            "`model.decoder.heads` is 5; it must be a divisor of `model.decoder.embedding`, which \
             is 8",
        ),
        (vec!["model.layers=0"], "`model.layers` is 0; it must be 1 to 256"),
        (vec!["model.patch=[0, 4]"], "`model.patch` is [0, 4]; it must be sides of 1 to 4096"),
        (vec!["model.decoder.kind=none"], "`model.decoder.kind` is \"none\""),
        (vec!["data.target=image"], "data.target"),
        (vec!["data.noise=0.1"], "data.noise"),
    ] {
        let error = read_with(SMALL, &sets).err().expect("refused").to_string();
        assert!(error.contains(said), "{error}\n{said}");
    }
}

#[test]
fn models_are_not_quantized_for_a_reason() {
    // The trial's model draws its parameters.
    let _alone = updraft_testing::alone();
    let plan = plan(&[]);
    let reason = plan.task.quantizer().err().expect("refused");
    assert!(reason.contains("`model.encoder`"), "{reason}");
    assert!(plan.kind().refusals().expect("a trial").iter().all(|(ability, _)| {
        use updraft_run::Ability;
        !matches!(ability, Ability::Predict | Ability::Segments | Ability::Utilization)
    }));
    assert!(TASKS.iter().any(|task| task.name() == "masked-images"));
    let about = workload(&plan, None).about();
    assert_eq!(about.model, "masked autoencoder, 2 channels, 12 of 16 tokens masked");
}
