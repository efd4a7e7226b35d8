//! Image to image: masks, other images and reconstructions, of generated cells and of files.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use updraft_data::{
    CellsConfig, NormalizeChannels, Volume, VolumeSource, open_volume, write_cells,
};
use updraft_run::{
    ComponentFiles, FilePrediction, Opening, Plan, RunError, RunFolder, TASKS, TrainedModel,
    WrittenPrediction,
};
use updraft_trainer::Ending;

use crate::plans::read_with;
use crate::train::{Watcher, train, workload};

/// Generated cells in two dimensions with a network that trains in a moment.
const SMALL: &str = "task = \"image-to-image\"\n\
    [data]\npatch = [16, 16]\npatches = 8\nsides = [32, 32]\ntrain_fields = 3\ntest_fields = 1\n\
    [model]\nfilters = [2, 4]\n\
    [train]\nepochs = 2\nbatch = 4\n";

/// The same in three dimensions.
const VOLUMES: [&str; 3] = ["data.patch=[4, 16, 16]", "data.sides=[6, 24, 24]", "data.patches=4"];

fn plan(sets: &[&str]) -> Plan {
    read_with(SMALL, sets).expect("valid").plan
}

#[test]
fn every_kind_of_target_trains_and_resumes_to_the_same_score() {
    // Frames without optimization take more than the two MiB of a test's thread.
    let run = std::thread::Builder::new().stack_size(8 << 20).spawn(train_every_kind_of_target);
    run.expect("a thread starts").join().expect("every target trains");
}

fn train_every_kind_of_target() {
    for (metric, sets) in [
        ("dice", vec![]),
        ("dice-2", vec!["train.loss.kind=cross-entropy", "train.recompute=segments"]),
        ("dice", VOLUMES.to_vec()),
        ("iou", vec!["data.labels=foreground", "model.activation=sigmoid", "train.loss.kind=dice"]),
        (
            "dice",
            vec![
                "train.loss={kind = \"tversky\", alpha = 0.3, beta = 0.7}",
                "data.foreground={share = 0.7}",
            ],
        ),
        ("pearson", vec!["data.target=image", "augment.flip=true", "augment.quarter_turn=true"]),
        ("ssim", vec!["data.target=image", "train.loss.kind=ssim", "data.scale.kind=unit"]),
        ("psnr", vec!["data.target=input", "data.noise=0.1", "model.upsampling=linear"]),
        (
            "loss-penalty",
            vec![
                "data.target=input",
                "data.scale.kind=unit",
                "model={kind = \"dual-autoencoder\", widths = [8, 4, 4], latent = 2}",
                "model.penalty.roughness=0.1",
            ],
        ),
        (
            "loss-channel-2",
            vec![
                "data.target=image",
                "train.channel_losses=[{loss={kind='ssim'}}, {loss={kind='huber', delta=1}, weight=2}]",
            ],
        ),
        (
            "pearson",
            vec![
                "data.target=image",
                "model.filters=[2, 3, 4]",
                "model.deep_supervision=1",
                "model.normalization=batch",
                "model.block=plain",
                "model.downsampling=max-pool",
            ],
        ),
    ] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = plan(&sets);
        let whole = train(&plan, dir.path(), None, &mut Watcher::default());
        let mut stops = Watcher { stop_after: Some(4), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops);
        assert_eq!(stopped.ending, Ending::Stopped, "{sets:?}");
        let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
        let score =
            |trained: &updraft_run::Trained| trained.test.as_ref().expect("a score").value(metric);
        assert!(score(&whole).is_some_and(f64::is_finite), "{sets:?} {metric}");
        assert_eq!(score(&resumed), score(&whole), "{sets:?} {metric}");
        assert_eq!(whole.folder.pictures().expect("pictures").len(), 1, "{sets:?}");
    }
}

#[test]
fn training_separates_cells_from_the_ground() {
    let sets = [
        "train.epochs=6",
        "data.patches=32",
        "data.sides=[64, 64]",
        "model.filters=[4, 8]",
        "train.learning_rate=0.01",
        "data.labels=foreground",
    ];
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = train(&plan(&sets), dir.path(), None, &mut Watcher::default());
    let dice = trained.test.expect("a score").value("dice").expect("defined");
    // All background is 0, all foreground about 0.6.
    assert!(dice > 0.8, "{dice}");
}

/// Files of cells with a manifest as `volumes.csv`, of the given sides.
fn cells(dir: &Path, sides: &[usize], manifest: &str) {
    let config = CellsConfig { sides: sides.to_vec(), seed: 3 };
    let files = write_cells(dir, &config, 3, 1, &mut |_| {}).expect("written");
    let from = if manifest == "label-free" { files.label_free } else { files.segmentation };
    fs::copy(from, dir.join("volumes.csv")).expect("copied");
}

fn predict(model: &TrainedModel, request: &FilePrediction) -> Result<WrittenPrediction, RunError> {
    model.predict_image(request, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn a_trained_network_predicts_whole_files_and_is_compared_with_the_target() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    for (sides, manifest, sets) in [
        (vec![40, 56], "label-free", vec!["data.target=image"]),
        (vec![40, 56], "segmentation", vec![]),
        (vec![7, 24, 28], "segmentation", VOLUMES.to_vec()),
    ] {
        let dir = tempfile::tempdir().expect("temporary folder");
        cells(dir.path(), &sides, manifest);
        let set = format!("data.dir={:?}", dir.path());
        let sets: Vec<&str> = sets.into_iter().chain([set.as_str()]).collect();
        let plan = plan(&sets);
        let trained = train(&plan, dir.path(), None, &mut Watcher::default());
        let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");

        let is_mask = manifest == "segmentation";
        let kinds =
            if is_mask { ["fluorescence", "classes"] } else { ["transmitted", "fluorescence"] };
        let file = |kind: &str| dir.path().join(format!("field002_{kind}.ome.tif"));
        let out = dir.path().join("out.ome.tif");
        let mut request = FilePrediction::new(file(kinds[0]), &out);
        request.truth = Some(file(kinds[1]));
        request.batch = 2;
        if is_mask {
            let labels = dir.path().join("components.ome.tif");
            let table = labels.with_extension("csv");
            request.components = Some(ComponentFiles { labels, table });
        }
        let written = predict(&model, &request).expect("predicted");
        assert_eq!(written.sides, sides);
        assert_eq!(written.channels, if is_mask { 1 } else { 2 });
        assert_eq!(written.components.is_some(), is_mask);
        let first = &written.metrics[0];
        assert_eq!(first.spec.name, if is_mask { "dice" } else { "pearson" });
        if !is_mask {
            let value = |name: &str| {
                let found = written.metrics.iter().find(|metric| metric.spec.name == name);
                found.and_then(|metric| metric.value).expect(name)
            };
            let [mean, first, second] = ["pearson", "pearson-1", "pearson-2"].map(value);
            assert!((mean - (first + second) / 2.0).abs() < 1e-9, "{mean} {first} {second}");
            assert!(value("mean-absolute-error") > 0.0);
        }
        assert!(first.value.is_none_or(f64::is_finite), "{first:?}");

        // The file has the sides and the voxels of the input, and is the same for other batches.
        let volume = |path: &Path| -> Volume {
            let file = open_volume(path, &updraft_data::OpenConfig::default()).expect("a TIFF");
            Volume::load(&*file).expect("read")
        };
        let predicted = volume(&out);
        assert_eq!(predicted.spec().voxel_um, volume(&file(kinds[0])).spec().voxel_um);
        let mut again = FilePrediction::new(file(kinds[0]), dir.path().join("again.ome.tif"));
        again.batch = 3;
        again.compare_with = Some(out.clone());
        let written = predict(&model, &again).expect("predicted");
        assert_eq!(volume(&again.output).frames(), predicted.frames());
        assert!(written.metrics.iter().all(|metric| metric.value == Some(0.0)));
        let mut apart = FilePrediction::new(file(kinds[0]), dir.path().join("apart.ome.tif"));
        apart.overlap = vec![0.0];
        apart.compare_with = Some(out.clone());
        let seams = predict(&model, &apart).expect("predicted").metrics;
        let names: Vec<_> = seams.iter().map(|metric| metric.spec.name.as_ref()).collect();
        let volumes = [volume(&apart.output), predicted];
        let [apart, whole] = volumes.map(|volume| {
            let planes = |raster| NormalizeChannels::default().planes(raster).expect("planes");
            volume.frames().iter().flat_map(planes).collect::<Vec<f32>>()
        });
        let pairs = apart.iter().zip(&whole);
        let (expected, values) = match is_mask {
            true => {
                let differing = pairs.filter(|(a, b)| a != b).count() as f64;
                (vec!["differing-positions"], vec![differing / whole.len() as f64])
            }
            false => {
                let all: Vec<f64> = pairs.map(|(a, b)| f64::from((a - b).abs())).collect();
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                let largest = all.iter().copied().fold(0.0, f64::max);
                (vec!["mean-difference", "largest-difference"], vec![mean, largest])
            }
        };
        assert_eq!(names, expected);
        for (metric, value) in seams.iter().zip(values) {
            assert!((metric.value.expect("a value") - value).abs() < 1e-12, "{metric:?} {value}");
        }
    }
}

#[test]
fn unusable_images_and_plans_are_refused_with_what_to_do() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = train(&plan(&["train.epochs=1"]), dir.path(), None, &mut Watcher::default());
    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let image = dir.path().join("image.png");
    image::RgbImage::from_pixel(40, 24, image::Rgb([250, 20, 20])).save(&image).expect("saved");
    let out = dir.path().join("out.tif");
    let said = |request: &FilePrediction| {
        let error = predict(&model, request).expect_err("refused");
        assert!(error.is_input(), "{error}");
        error.to_string()
    };
    let gone = FilePrediction::new(dir.path().join("gone.tif"), &out);
    assert!(said(&gone).contains("gone.tif"));
    let colored = FilePrediction::new(&image, &out);
    assert!(
        said(&colored).contains(
            "its number of channels is 3; that of the images the run was trained on is 2"
        ),
        "{}",
        said(&colored)
    );
    let cells_dir = dir.path().join("cells");
    cells(&cells_dir, &[40, 56], "segmentation");
    let mut other = FilePrediction::new(cells_dir.join("field002_fluorescence.ome.tif"), &out);
    other.truth = Some(image.clone());
    assert!(said(&other).contains("the input 1 frame of [40, 56]"), "{}", said(&other));
    other.truth = Some(cells_dir.join("field002_classes.ome.tif"));
    other.keeps_channels = true;
    assert!(said(&other).contains("leave out --truth or --keep-channels"), "{}", said(&other));
    other.output = dir.path().join("out.png");
    assert!(said(&other).contains("does not end in .tif or .tiff"), "{}", said(&other));
    let error = model.predict(&image).expect_err("no file to write").to_string();
    assert!(error.contains("--out FILE"), "{error}");
    assert!(!out.exists(), "nothing is written");

    for (set, expected) in [
        ("data.patch=[16, 15]", "multiples of 2"),
        ("data.patch=[16, 64]", "`data.sides` is [32, 32]; it must be at least the sides"),
        ("data.patch=[16]", "it must be 2 or 3 sides"),
        ("train.loss.kind=huber", "`train.loss"),
        (
            "train.loss={kind='tversky', alpha=1, beta=0}",
            "`train.loss.beta` is 0; it must be above 0",
        ),
        ("train.loss.kind=mean-squared-error", "a loss of labels"),
        ("model.activation=sigmoid", "it must be softmax for 3 classes"),
        ("model.filters=[2]", "`model.filters` is [2]; it must be a list of 2 to "),
        ("data.foreground={share = 2.0}", "`data.foreground.share` is 2; it must be 0 to 1"),
        (
            "data.scale={kind = \"percentile\", low = 90.0, high = 1.0}",
            "`data.scale.high` is 1; it must be above the lower percentile, 90, and at most 100",
        ),
        ("model.kind=dual-autoencoder", "`unet` for masks"),
        ("train.channel_losses=[{loss={kind='huber', delta=1}}]", "`train.channel_losses` is not"),
        ("augment.elastic={max_pixels = 9.0, grid_pixels = 8.0}", "it must be 0 to 2.6666667"),
    ] {
        let error = read_with(SMALL, &[set]).map(drop).expect_err(set).to_string();
        assert!(error.contains(expected), "{set}: {error}");
    }
}

#[test]
fn losses_of_channels_are_checked_and_replace_the_loss() {
    let losses = |list: &str| format!("train.channel_losses=[{list}]");
    for (list, more, expected) in [
        ("{loss={kind='dice'}}", None, "with a loss of images for channel 1"),
        (
            "{loss={kind='ssim'}}, {loss={kind='huber', delta=0}}",
            None,
            "with numbers above 0 and at most 1000000 for channel 2",
        ),
        ("{loss={kind='ssim'}, weight=0}", None, "with a weight above 0"),
        ("", None, "a list of 1 to 64 losses"),
        (
            "{loss={kind='ssim'}}",
            Some("train.loss.kind=ssim"),
            "`train.loss` is not read beside `train.channel_losses",
        ),
    ] {
        let list = losses(list);
        let sets: Vec<&str> = ["data.target=image", &list].into_iter().chain(more).collect();
        let error = read_with(SMALL, &sets).map(drop).expect_err(&list).to_string();
        assert!(error.contains(expected), "{list}: {error}");
    }
}

#[test]
fn data_that_cannot_be_learned_from_is_refused() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    cells(dir.path(), &[40, 56], "segmentation");
    let open = |sets: &[&str], at: &Path| {
        let plan = plan(sets);
        let opening = Opening { dir: Some(at), run: None, progress: &mut |_, _| {} };
        plan.task.open(&plan, opening).map(drop).expect_err("refused").to_string()
    };
    let error = open(&["data.target=image"], dir.path());
    assert!(error.contains("nothing in a column `target`"), "{error}");
    let error = open(&["data.classes=2"], dir.path());
    assert!(error.contains("label"), "{error}");
    let error = open(&["data.patch=[64, 64]", "data.sides=[64, 64]"], dir.path());
    assert!(error.contains("at least 64"), "{error}");
    let error = open(&["data.manifest=other.csv"], dir.path());
    assert!(error.contains("other.csv"), "{error}");
    let error = open(&["data.test_split=validation"], dir.path());
    assert!(error.contains("`data.test_split` is \"validation\"; it must be in"), "{error}");

    // Generated cells have two channels to predict.
    let losses = "train.channel_losses=[{loss={kind='mean-squared-error'}}]";
    let plan_of_one = plan(&["data.target=image", losses]);
    let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
    let error = plan_of_one.task.open(&plan_of_one, opening).map(drop).expect_err("refused");
    let expected = "`train.channel_losses` is a list of 1, and the target images have 2 channels";
    assert!(error.to_string().contains(expected), "{error}");

    // A run is scored on its own volumes only.
    let trained = train(&plan(&["train.epochs=1"]), dir.path(), None, &mut Watcher::default());
    let folder = RunFolder::open(trained.folder.path()).expect("a run");
    assert!(folder.plan(TASKS).is_ok());
    let other = plan(&["seed=2"]);
    let error = workload(&other, None).check(&folder).expect_err("other cells").to_string();
    assert!(error.contains("its volumes"), "{error}");
}
