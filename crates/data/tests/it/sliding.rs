//! Sliding windows: blended as in MONAI, without seams, slab by slab, and resumed.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;
use updraft_data::{
    Axis, Blend, ModelError, OpenConfig, Padding, Pixels, PredictConfig, Raster, Reduction,
    SlidingWindow, TiffWriteConfig, Volume, VolumeSource, WindowBatch, WindowProgress, open_volume,
};
use updraft_testing::devices;

use crate::files::{message, shared};

fn volume(channels: usize, sides: &[usize], value: impl Fn(usize) -> f32) -> Volume {
    let count = channels * sides.iter().product::<usize>();
    let raster = Raster::from_planes(channels, sides, (0..count).map(value).collect::<Vec<_>>());
    Volume::try_new("input", vec![raster.unwrap()], [None, Some(0.5), Some(0.25)]).unwrap()
}

fn go_on(_: WindowProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// `f(w) = w − mean(w)`: shows where a window begins and ends.
fn minus_mean(mut windows: WindowBatch) -> Result<Vec<f32>, ModelError> {
    let count: usize = windows.sides.iter().product();
    for window in windows.values.chunks_exact_mut(count) {
        let mean = window.iter().map(|&value| f64::from(value)).sum::<f64>() / count as f64;
        window.iter_mut().for_each(|value| *value -= mean as f32);
    }
    Ok(windows.values)
}

fn predict(sliding: &SlidingWindow, input: &Volume) -> Vec<f32> {
    let result = sliding.predict(input, Reduction::Keep, &mut minus_mean, &mut go_on).unwrap();
    let Pixels::F32(values) = result.frames()[0].pixels() else { panic!("no f32") };
    values.to_vec()
}

fn list(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().map(|value| value.as_f64().unwrap()).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

fn compare_with_monai(cases: &[Value], window: &str, sigma: &str) {
    for case in cases {
        let input = match case["input"].as_str() {
            Some("2d") => volume(1, &[10, 13], |at| at as f32),
            _ => volume(1, &[7, 9, 11], |at| (at % 17) as f32),
        };
        let sides: Vec<usize> = list(&case[window]).into_iter().map(|side| side as usize).collect();
        let blend = match case["mode"].as_str() {
            Some("constant") => Blend::Constant,
            _ => Blend::Gaussian { sigma: list(&case[sigma]) },
        };
        let sliding = SlidingWindow::new(&sides)
            .with_overlap(&list(&case["overlap"]))
            .with_batch(3)
            .with_blend(blend);
        let expected = list(&case["output"]);
        let got = predict(&sliding, &input);
        assert_eq!(got.len(), expected.len());
        for (at, (&got, expected)) in got.iter().zip(expected).enumerate() {
            // 1e-5 of the largest value, and half of the last digit that is written down.
            let bound = 1e-5 * expected.abs().max(1.0) + 5e-6;
            assert!(
                (f64::from(got) - expected).abs() < bound,
                "{sliding:?} {at}: {got} {expected}"
            );
        }
    }
}

#[test]
fn windows_are_blended_as_by_monai() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/sliding.json");
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(golden).unwrap()).unwrap();
    assert_eq!(cases.len(), 14);
    compare_with_monai(&cases, "window", "sigma");
}

#[test]
fn windows_are_blended_as_in_the_reference_at_hand() {
    let Some(path) = shared("microscopy/reference/monai_sliding_window_golden.json") else {
        return;
    };
    let golden: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    compare_with_monai(golden["cases"].as_array().unwrap(), "roi", "sigma_scale");
}

#[test]
fn a_model_that_changes_nothing_returns_the_volume_for_every_padding_and_mirror() {
    let input = volume(2, &[5, 9, 11], |at| (at as f32 * 0.37).sin());
    let Pixels::F32(expected) = input.frames()[0].pixels() else { panic!() };
    for (window, mirror) in [
        (vec![4, 4, 5], vec![]),
        (vec![8, 3, 16], vec![Axis::Depth, Axis::Width]),
        (vec![0, 0, 4], vec![Axis::Height, Axis::Height, Axis::Width]),
    ] {
        for padding in [Padding::Constant(-3.0), Padding::Replicate, Padding::Reflect] {
            let sliding = SlidingWindow::new(&window)
                .with_overlap(&[0.5, 0.25, 0.0])
                .with_batch(5)
                .with_padding(padding)
                .with_mirror(&mirror);
            let mut seen = 0;
            let mut same = |windows: WindowBatch| {
                seen = seen.max(windows.windows);
                assert_eq!(windows.channels, 2);
                Ok(windows.values)
            };
            let result = sliding.predict(&input, Reduction::Keep, &mut same, &mut go_on).unwrap();
            let Pixels::F32(got) = result.frames()[0].pixels() else { panic!() };
            assert!(seen <= 5);
            assert_eq!(result.spec(), input.spec());
            for (got, expected) in got.iter().zip(&**expected) {
                assert!((got - expected).abs() < 1e-5, "{got} {expected}");
            }
        }
    }
}

#[test]
fn a_model_that_knows_left_from_right_is_averaged_over_its_mirrors() {
    let input = volume(1, &[4, 4], |_| 0.0);
    // 1 in the first column of each window: with mirrors half of it in the first and the last.
    let mut first_column = |windows: WindowBatch| {
        Ok((0..windows.values.len()).map(|at| f32::from(at % 4 == 0)).collect())
    };
    let sliding = SlidingWindow::new(&[4, 4]).with_mirror(&[Axis::Width, Axis::Height]);
    let result = sliding.predict(&input, Reduction::Keep, &mut first_column, &mut go_on).unwrap();
    let row = [0.5, 0.0, 0.0, 0.5];
    let expected = Raster::try_new(1, &[4, 4], row.repeat(4)).unwrap();
    assert_eq!(result.frames(), [expected]);
}

#[test]
fn channels_are_reduced_plane_by_plane() {
    let input = volume(1, &[3, 8, 8], |at| at as f32);
    // Channels: 0, the value, 100.5.
    let mut three = |windows: WindowBatch| {
        let count: usize = windows.sides.iter().product();
        let each = windows.values.chunks_exact(count);
        Ok(each.flat_map(|w| [vec![0.0; count], w.to_vec(), vec![100.5; count]].concat()).collect())
    };
    let sliding = SlidingWindow::new(&[2, 4, 4]).with_batch(2);
    let result = sliding.predict(&input, Reduction::ArgMax, &mut three, &mut go_on).unwrap();
    let best = |at: usize| 2 - u8::from(at > 100);
    let expected = Raster::try_new(1, &[3, 8, 8], (0..192).map(best).collect::<Vec<_>>());
    assert_eq!(result.frames(), [expected.unwrap()]);
    let mut same = |windows: WindowBatch| Ok(windows.values);
    let result = sliding.predict(&input, Reduction::Above(50.5), &mut same, &mut go_on).unwrap();
    let expected: Vec<u8> = (0..192).map(|at| u8::from(at > 50)).collect();
    assert_eq!(result.frames(), [Raster::try_new(1, &[3, 8, 8], expected).unwrap()]);
}

/// A model that is wrong near the edge of its window leaves a jump where windows are put side by
/// side, and a small one where they overlap and are blended.
#[test]
fn no_seam_shows_where_windows_meet() {
    let input = volume(1, &[8, 64], |_| 0.0);
    let jump = |overlap: f64| {
        let mut ramp = |windows: WindowBatch| {
            Ok((0..windows.values.len()).map(|at| (at % 16) as f32 / 15.0).collect())
        };
        let sliding = SlidingWindow::new(&[8, 16]).with_overlap(&[overlap]);
        let result = sliding.predict(&input, Reduction::Keep, &mut ramp, &mut go_on).unwrap();
        let Pixels::F32(values) = result.frames()[0].pixels() else { panic!() };
        // A middle row: in the first one every weight is the floor, and blending is a plain mean.
        values[3 * 64..4 * 64].windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f32::max)
    };
    assert!(jump(0.0) > 0.99, "side by side the windows show their edges: {}", jump(0.0));
    assert!(jump(0.75) < 0.07, "{}", jump(0.75));
    assert!(jump(0.5) < 0.19, "{}", jump(0.5));
}

#[test]
fn a_prediction_that_ended_early_is_gone_on_with_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for (sides, window) in [(vec![23, 20, 30], vec![4, 8, 8]), (vec![2000, 333], vec![64, 64])] {
        let frame = |at: usize| volume(1, &sides, |place| ((place + at) as f32 * 0.01).sin());
        let frames = (0..2).map(|at| frame(at).frames()[0].clone()).collect();
        let input = Volume::try_new("input", frames, [Some(2.0), None, Some(0.25)]).unwrap();
        let sliding = SlidingWindow::new(&window).with_overlap(&[0.5]).with_batch(3);
        let config = PredictConfig { model: "minus mean".to_owned(), ..PredictConfig::default() };
        let whole = folder.path().join("whole.ome.tif");
        let run = |path: &Path, config: &PredictConfig, stop: u64| {
            let mut windows = 0;
            let mut progress = |at: WindowProgress| {
                windows = at.here;
                assert!(at.done <= at.total && at.left().is_some());
                if at.here >= stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let ran = sliding.predict_to_tiff(&input, path, config, &mut minus_mean, &mut progress);
            (ran, windows)
        };
        let (ran, total) = run(&whole, &config, u64::MAX);
        let spec = ran.unwrap().spec;
        assert_eq!(
            (spec.raster.sides(), spec.frames, spec.voxel_um),
            (sides, 2, input.spec().voxel_um)
        );
        let expected = fs::read(&whole).unwrap();
        let part = folder.path().join("part.ome.tif");
        for stop in [total / 7, total / 4, total / 5] {
            let (ran, _) = run(&part, &config, stop);
            let error = message(&ran.unwrap_err());
            assert!(error.starts_with("the prediction of `input` was stopped after "), "{error}");
            assert!(!part.exists());
        }
        let (ran, windows) = run(&part, &config, u64::MAX);
        let resumed = ran.unwrap().resumed_planes;
        assert!(resumed > 0 && windows < total * 3 / 4, "{resumed} {windows} {total}");
        assert!(fs::read(&part).unwrap() == expected, "other bits");
        // Other settings do not resume it, and nothing remains.
        let _ = run(&part, &config, total / 2);
        let other = PredictConfig { model: "another".to_owned(), ..config.clone() };
        assert_eq!(run(&part, &other, u64::MAX).0.unwrap().resumed_planes, 0);
        assert!(fs::read(&part).unwrap() == expected, "other bits");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let read = open_volume(&part, &OpenConfig::default()).unwrap();
        assert_eq!(read.spec().raster.sides(), spec.raster.sides());
        fs::remove_file(&part).unwrap();
    }
}

#[test]
fn windows_and_models_that_do_not_fit_are_named() {
    let input = volume(1, &[4, 16, 16], |at| at as f32);
    let refused = |sliding: SlidingWindow| {
        let error = sliding.predict(&input, Reduction::Keep, &mut minus_mean, &mut go_on);
        message(&error.unwrap_err())
    };
    assert_eq!(
        refused(SlidingWindow::new(&[4, 4])),
        "`window` is [4, 4]; expected 3 sides, as the input has"
    );
    let window = SlidingWindow::new(&[4, 4, 4]);
    let overlap = refused(window.clone().with_overlap(&[0.5, 1.0, 0.5]));
    assert_eq!(overlap, "`overlap` is [0.5, 1.0, 0.5]; expected 0 to 0.95: one number, or 3");
    // Windows at every place of a large picture would not end.
    let overlap = refused(window.clone().with_overlap(&[0.999_999_999]));
    assert_eq!(overlap, "`overlap` is [0.999999999]; expected 0 to 0.95: one number, or 3");
    assert!(window.clone().with_overlap(&[0.95]).validate(3).is_ok());
    assert_eq!(refused(window.clone().with_batch(0)), "`batch` is 0; expected at least 1");
    let sigma = Blend::Gaussian { sigma: vec![0.0] };
    assert!(refused(window.clone().with_blend(sigma)).starts_with("`sigma` is [0.0]; expected"));
    assert_eq!(
        refused(SlidingWindow::new(&[4, 13, 8]).with_multiple_of(&[1, 8, 8])),
        "`window` is [4, 13, 8]; expected a height that is a multiple of 8, the network's stride, such as 16"
    );
    let mut short = |windows: WindowBatch| Ok(windows.values[1..].to_vec());
    let error = window.predict(&input, Reduction::Keep, &mut short, &mut go_on).unwrap_err();
    assert_eq!(
        message(&error),
        "the model failed on windows of `input`: it returned 63 values for 1 windows; expected any \
         number of channels of 4x4x4"
    );
    let mut broken = |_: WindowBatch| Err("out of memory".into());
    let error = window.predict(&input, Reduction::Keep, &mut broken, &mut go_on).unwrap_err();
    assert_eq!(message(&error), "the model failed on windows of `input`: out of memory");
    let nowhere = Path::new("/proc/no/such/folder/out.tif");
    let config = PredictConfig { tiff: TiffWriteConfig::default(), ..PredictConfig::default() };
    let error =
        window.predict_to_tiff(&input, nowhere, &config, &mut minus_mean, &mut go_on).unwrap_err();
    assert!(
        message(&error).starts_with("`/proc/no/such/folder/out.tif` cannot be written: "),
        "{error}"
    );
}

/// `/dev/full` takes no byte.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_a_file_that_was_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.tif");
    fs::write(&output, "what was there").unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join(".out.tif.partial")).unwrap();
    let input = volume(1, &[8, 16, 16], |at| at as f32);
    let (sliding, config) = (SlidingWindow::new(&[4, 8, 8]), PredictConfig::default());
    let error =
        sliding.predict_to_tiff(&input, &output, &config, &mut minus_mean, &mut go_on).unwrap_err();
    assert!(
        message(&error).contains("out.tif` cannot be written: No space left on device"),
        "{error}"
    );
    assert_eq!(fs::read(&output).unwrap(), b"what was there");
}

fn tensor(device: &Device, sides: [usize; 3]) -> Tensor<5> {
    let count = 2 * sides.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
    let [depth, height, width] = sides;
    Tensor::from_data(TensorData::new(values, [2, 1, depth, height, width]), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

#[test]
fn a_model_of_tensors_may_change_the_channels() {
    for device in devices() {
        let input = tensor(&device, [4, 4, 4]);
        let sliding = SlidingWindow::new(&[2, 3, 4]).with_batch(4);
        let three = |windows: Tensor<5>| windows.repeat_dim(1, 3) * 2.0;
        let output = sliding.apply(input.clone(), three).unwrap();
        assert_eq!(output.dims(), [2, 3, 4, 4, 4]);
        let (got, expected) = (values(output.narrow(1, 2, 1)), values(input));
        assert!(
            got.iter().zip(expected).all(|(got, expected)| (got - 2.0 * expected).abs() < 1e-5)
        );
    }
}
