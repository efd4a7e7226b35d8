//! Losses and metrics of masks and images compared with MONAI's and scikit-image's;
//! `masks_and_images/make.py` made their numbers.

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::Deserialize;
use updraft_testing::{Tolerance, assert_close, scattered, tolerance};
use updraft_trainer::{
    ImageScores, MaskActivation, MaskScores, Score, boundary_distances, dice_cross_entropy,
    dice_loss, ssim_loss, tversky_loss,
};

/// Both sides are in f32 and sum in another order.
const NEAR: Tolerance = Tolerance::new(2e-6, 2e-6);

#[derive(Deserialize)]
struct Golden {
    softmax: Masks,
    sigmoid: Masks,
    images: Images,
    volumes: Images,
    boundaries: Vec<Boundaries>,
}

#[derive(Deserialize)]
struct Masks {
    dice: f64,
    dice_cross_entropy: f64,
    tversky: f64,
    iou: Vec<f64>,
}

#[derive(Deserialize)]
struct Images {
    ssim: f64,
    psnr: f64,
    pearson: Vec<f64>,
    r_squared: f64,
    mean_absolute_error: f64,
}

#[derive(Deserialize)]
struct Boundaries {
    sides: Vec<usize>,
    spacing: Vec<f64>,
    predicted: [Vec<f64>; 2],
    truth: [Vec<f64>; 2],
    hausdorff: f64,
    hausdorff_95: f64,
    mean_surface: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("masks_and_images/golden.json")).unwrap()
}

fn tensor<const D: usize>(seed: u32, dims: [usize; D]) -> Tensor<D> {
    let values = scattered(seed, dims.iter().product());
    Tensor::from_data(TensorData::new(values, dims), &Device::flex())
}

fn numbers(tensor: Tensor<1>) -> Vec<f64> {
    tensor.into_data().iter().collect()
}

fn assert_masks(golden: &Masks, channels: usize, activation: MaskActivation, thresholds: &[f32]) {
    let logits = tensor(1, [2, channels, 60]).mul_scalar(3.0);
    let is_above = |threshold| tensor(2, [2, 60]).greater_elem(threshold).int();
    // Above one threshold class 1; above the first of two class 2, above the second class 3.
    let labels: Tensor<2, Int> = match thresholds {
        [one] => is_above(*one),
        _ => is_above(thresholds[0]).mul_scalar(2) + is_above(thresholds[1]),
    };
    let loss = |loss: fn(Tensor<3>, Tensor<2, Int>, MaskActivation) -> Tensor<1>| {
        loss(logits.clone(), labels.clone(), activation)
    };
    assert_close(&loss(dice_loss), &[golden.dice], NEAR);
    assert_close(&loss(dice_cross_entropy), &[golden.dice_cross_entropy], NEAR);
    assert_close(&loss(|x, y, a| tversky_loss(x, y, a, 0.3, 0.7)), &[golden.tversky], NEAR);

    let mut score = MaskScores::default();
    score.add(&numbers(MaskScores::measure(&logits, &labels, activation)), 2);
    assert_eq!(score.classes(), golden.iou.len());
    let iou: Vec<f64> = (0..score.classes()).map(|class| score.iou(class).unwrap()).collect();
    assert_close(&iou, &golden.iou, NEAR);
    let dice: Vec<f64> = (0..score.classes()).map(|class| score.dice(class).unwrap()).collect();
    let expected: Vec<f64> = golden.iou.iter().map(|iou| 2.0 * iou / (1.0 + iou)).collect();
    assert_close(&dice, &expected, NEAR);
}

#[test]
fn losses_and_overlaps_of_masks_are_monais() {
    let Golden { softmax, sigmoid, .. } = golden();
    assert_masks(&softmax, 4, MaskActivation::Softmax, &[0.2, 0.6]);
    assert_masks(&sigmoid, 1, MaskActivation::Sigmoid, &[0.4]);
}

fn assert_images<const D: usize>(golden: &Images, dims: [usize; D], seeds: [u32; 2]) {
    let [targets, noise] = seeds.map(|seed| tensor(seed, dims));
    let predictions = targets.clone().mul_scalar(0.7) + noise.mul_scalar(0.3);
    let loss = ssim_loss(predictions.clone(), targets.clone(), 2.0);
    assert_close(&loss, &[1.0 - golden.ssim], NEAR);
    let mut score = ImageScores::default();
    score.add(&numbers(ImageScores::measure(&predictions, &targets, 2.0)), dims[0]);
    let found = [
        score.ssim(),
        score.psnr(),
        score.pearson_of(0),
        score.pearson_of(1),
        score.pearson(),
        score.r_squared(),
        score.mean_absolute_error(),
    ];
    let [first, second] = golden.pearson[..] else { panic!("two channels") };
    let expected = [
        golden.ssim,
        golden.psnr,
        first,
        second,
        f64::midpoint(first, second),
        golden.r_squared,
        golden.mean_absolute_error,
    ];
    assert_close(&found.map(Option::unwrap), &expected, NEAR);
}

#[test]
fn the_scores_of_images_and_volumes_are_scikit_images() {
    let Golden { images, volumes, .. } = golden();
    assert_images(&images, [2, 2, 14, 17], [3, 4]);
    assert_images(&volumes, [2, 2, 11, 13, 12], [5, 6]);
}

/// The points within an ellipsoid of a center and radii.
fn ellipsoid(sides: &[usize], center: &[f64], radii: impl Fn(usize) -> f64) -> Vec<bool> {
    let is_inside = |mut at: usize| {
        let mut sum = 0.0;
        for axis in (0..sides.len()).rev() {
            let place = (at % sides[axis]) as f64;
            sum += ((place - center[axis]) / radii(axis)).powi(2);
            at /= sides[axis];
        }
        sum <= 1.0
    };
    (0..sides.iter().product()).map(is_inside).collect()
}

#[test]
fn the_distances_between_boundaries_are_monais() {
    for golden in golden().boundaries {
        let Boundaries { sides, spacing, predicted, truth, .. } = golden;
        let [center, radii] = predicted;
        let predicted = ellipsoid(&sides, &center, |axis| radii[axis]);
        let [center, radii] = truth;
        let hole = ellipsoid(&sides, &center, |axis| radii[axis] / 3.0);
        let whole = ellipsoid(&sides, &center, |axis| radii[axis]);
        let truth: Vec<bool> =
            whole.iter().zip(hole).map(|(whole, hole)| *whole && !hole).collect();
        let found = boundary_distances(&predicted, &truth, &sides, &spacing).unwrap();
        let found = [found.hausdorff, found.hausdorff_95, found.mean_surface];
        let expected = [golden.hausdorff, golden.hausdorff_95, golden.mean_surface];
        assert_close(&found, &expected, tolerance::F32);
    }
}
