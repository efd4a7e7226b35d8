//! Random patches and sliding windows, in two and three dimensions.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{
    Collate, DataError, Loader, Order, PatchPair, RandomPatches, SlidingWindow, StreamConfig,
    TargetBatch, TensorBatch, Workers,
};
use updraft_testing::devices;

/// A volume whose every value says where it is, and a target that is its negative.
fn pair(name: &str, shape: [usize; 3]) -> PatchPair {
    let input: Vec<f32> = (0..2 * shape.iter().product::<usize>()).map(|at| at as f32).collect();
    let half = input.len() / 2;
    let target = input[..half].iter().map(|value| -value).collect();
    let (name, shape) = (name.to_owned(), shape.to_vec());
    PatchPair { name, shape, channels: 2, input, target_channels: 1, target }
}

fn patches() -> RandomPatches {
    let pairs = vec![pair("a", [6, 8, 10]), pair("b", [5, 9, 7])];
    RandomPatches::try_new(pairs, &[3, 4, 5], 40).unwrap()
}

fn batches(workers: usize, epoch: u64) -> Vec<TensorBatch> {
    let config = StreamConfig::new(16)
        .with_order(Order::Shuffled)
        .with_seed(9)
        .with_workers(Workers::Count(workers));
    let loader = Loader::collating(patches(), config).unwrap();
    loader.epoch(epoch).map(Result::unwrap).collect()
}

#[test]
fn input_and_target_are_the_same_place_for_any_number_of_workers() {
    let expected = batches(0, 4);
    for workers in [1, 2, 8] {
        assert_eq!(batches(workers, 4), expected, "{workers} workers");
    }
    assert_ne!(batches(0, 5), expected);
    let mut places = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for batch in &expected {
        assert_eq!(batch.sample_shape(), [2, 3, 4, 5]);
        let TargetBatch::Values { shape, values } = batch.targets() else { panic!() };
        assert_eq!(shape, &[1, 3, 4, 5]);
        for (at, &index) in batch.indices().iter().enumerate() {
            let input = &batch.values()[at * 120..][..120];
            let target = &values[at * 60..][..60];
            assert!(input.iter().zip(target).all(|(input, target)| *input == -target));
            // The second channel is one volume further on.
            let volume = [480.0, 315.0][index / 40];
            assert!((0..60).all(|value| input[value + 60] == input[value] + volume));
            places[index / 40].insert(input[0] as usize);
        }
    }
    // Forty draws of 4·5·6 places, or of 3·6·3, hit more than a quarter of forty.
    assert!(places.iter().all(|places| places.len() > 10), "{places:?}");
}

#[test]
fn every_place_is_drawn() {
    let pairs = vec![PatchPair {
        name: "p".to_owned(),
        shape: vec![3, 4],
        channels: 1,
        input: (0..12_u8).map(f32::from).collect(),
        target_channels: 0,
        target: Vec::new(),
    }];
    let patches = RandomPatches::try_new(pairs, &[2, 2], 600).unwrap();
    let loader = Loader::collating(patches, StreamConfig::new(600)).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let mut seen = [0_i32; 12];
    for patch in batch.values().chunks(4) {
        seen[patch[0] as usize] += 1;
    }
    let places = [0, 1, 2, 4, 5, 6];
    // Four standard deviations of 600 draws with chance 1/6 are 37.
    assert!(places.iter().all(|&place: &usize| (seen[place] - 100).abs() < 37), "{seen:?}");
    assert_eq!(places.iter().map(|&place| seen[place]).sum::<i32>(), 600);
}

#[test]
fn patches_that_do_not_fit_are_refused() {
    let refused = |pairs, patch: &[usize]| RandomPatches::try_new(pairs, patch, 1).unwrap_err();
    let error = refused(vec![pair("a", [6, 8, 10])], &[3, 9, 5]);
    assert_eq!(
        error.to_string(),
        "`patch` is [3, 9, 5]; expected 2 or 3 sides within [6, 8, 10] of `a`"
    );
    assert!(matches!(refused(Vec::new(), &[1]), DataError::Empty));
    let cut = PatchPair { input: vec![0.0; 3], ..pair("a", [6, 8, 10]) };
    assert!(matches!(refused(vec![cut], &[1, 1, 1]), DataError::Values { expected: 960, .. }));
    assert_eq!(patches().len(), 80);
}

fn volume(device: &Device, sides: [usize; 3]) -> Tensor<5> {
    let count = 2 * sides.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
    let [depth, height, width] = sides;
    Tensor::from_data(TensorData::new(values, [2, 1, depth, height, width]), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

#[test]
fn windows_of_a_model_that_changes_nothing_blend_to_the_whole() {
    for device in devices() {
        for (sides, window, overlap, batch) in [
            ([7, 9, 11], vec![4, 4, 5], 0.5, 3),
            ([7, 9, 11], vec![4, 4, 5], 0.0, 100),
            ([3, 5, 8], vec![16, 2, 3], 0.25, 1),
        ] {
            let input = volume(&device, sides);
            let sliding = SlidingWindow::new(&window).with_overlap(overlap).with_batch(batch);
            let mut most = 0;
            let output = sliding
                .apply(input.clone(), |windows| {
                    most = most.max(windows.dims()[0]);
                    windows
                })
                .unwrap();
            assert!(most <= batch);
            for (got, expected) in values(output).into_iter().zip(values(input)) {
                assert!((got - expected).abs() < 1e-5, "{got} {expected}");
            }
        }
    }
}

/// The seam test: a model that is wrong near the edge of its window leaves a jump where windows
/// are put side by side, and no jump where they overlap and are blended.
#[test]
fn no_seam_shows_where_windows_meet() {
    for device in devices() {
        let input = Tensor::<4>::zeros([1, 1, 8, 64], &device);
        let edge_error = |windows: Tensor<4>| {
            let [count, _, height, width] = windows.dims();
            // From 0 at the left edge of the window to 1 at the right one.
            let ramp: Vec<f32> = (0..count * height * width)
                .map(|at| (at % width) as f32 / (width - 1) as f32)
                .collect();
            let shape = [count, 1, height, width];
            windows + Tensor::from_data(TensorData::new(ramp, shape), &device)
        };
        let jump = |overlap| {
            let sliding = SlidingWindow::new(&[8, 16]).with_overlap(overlap).with_batch(2);
            let row = values(sliding.apply(input.clone(), edge_error).unwrap())[..64].to_vec();
            row.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f32::max)
        };
        assert!(jump(0.0) > 0.99, "side by side the windows show their edges: {}", jump(0.0));
        // Where two windows overlap by three quarters their ramps differ by a quarter, and the
        // weights hand over gradually.
        assert!(jump(0.75) < 0.12, "{}", jump(0.75));
        assert!(jump(0.5) < 0.25, "{}", jump(0.5));
    }
}

#[test]
fn a_model_may_change_the_channels() {
    for device in devices() {
        let input = volume(&device, [4, 4, 4]);
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

#[test]
fn windows_out_of_range_are_named() {
    for device in devices() {
        let told = |sliding: SlidingWindow| {
            sliding.apply(volume(&device, [4, 4, 4]), |windows| windows).unwrap_err().to_string()
        };
        assert_eq!(
            told(SlidingWindow::new(&[4, 4])),
            "`window` is [4, 4]; expected 3 sides, as the input has"
        );
        let window = SlidingWindow::new(&[2, 2, 2]);
        assert_eq!(told(window.clone().with_overlap(1.0)), "`overlap` is 1; expected 0 to below 1");
        assert_eq!(told(window.clone().with_batch(0)), "`batch` is 0; expected at least 1");
        assert!(told(window.with_sigma(0.0)).starts_with("`sigma` is 0; expected"));
    }
}
