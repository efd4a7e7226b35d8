//! Comparison of a written prediction with the true image or mask.

use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use updraft_data::{
    NormalizeChannels, Pixels, Raster, ScaledVolume, VolumeSource, open_volume, volume_statistics,
};
use updraft_trainer::{
    Direction, ImageScores, MaskActivation, MaskScores, Metric, MetricSpec, Score, Unit,
    boundary_distances,
};

use super::data_plan::{DataPlan, LabelKind};
use super::objective::Objective;
use crate::error::RunError;

/// The metrics of a prediction over all frames; for masks also the distances between boundaries.
pub(in crate::task) fn compare(
    predicted: &Path,
    target_path: &Path,
    (data, objective): (&DataPlan, &Objective),
    device: &Device,
) -> Result<Vec<Metric>, RunError> {
    let config = data.open_config();
    let predicted = open_volume(predicted, &config)?;
    let target = open_volume(target_path, &config)?;
    let size = |source: &dyn VolumeSource| (source.spec().frames, source.spec().raster.sides());
    if size(&*predicted) != size(&*target) {
        let text = |(frames, sides)| format!("{frames} frames of {sides:?}");
        let cause =
            format!("it has {}, the prediction {}", text(size(&*target)), text(size(&*predicted)));
        return Err(RunError::Input { path: target_path.to_owned(), cause: cause.into() });
    }
    match *objective {
        Objective::Masks { classes, .. } => {
            of_masks(&*predicted, &*target, classes, data.labels, device)
        }
        Objective::Images { .. } => {
            let target = ScaledVolume::try_new(target, data.scale_target.into())?;
            of_images(&*predicted, &target, target_path, device)
        }
    }
}

fn of_images(
    predicted: &dyn VolumeSource,
    target: &dyn VolumeSource,
    path: &Path,
    device: &Device,
) -> Result<Vec<Metric>, RunError> {
    let channels = predicted.spec().raster.channels;
    if target.spec().raster.channels != channels {
        let cause =
            format!("it has {} channels, the prediction {channels}", target.spec().raster.channels);
        return Err(RunError::Input { path: path.to_owned(), cause: cause.into() });
    }
    let statistics = volume_statistics(target)?;
    let least = statistics.iter().map(|s| s.least).fold(f32::INFINITY, f32::min);
    let greatest = statistics.iter().map(|s| s.greatest).fold(f32::NEG_INFINITY, f32::max);
    let range = f64::from(greatest) - f64::from(least);
    if range <= 0.0 {
        let cause = "every value of it is the same";
        return Err(RunError::Input { path: path.to_owned(), cause: cause.into() });
    }
    let mut score = ImageScores::default();
    for frame in 0..target.spec().frames {
        let tensor = |source: &dyn VolumeSource| -> Result<Tensor<5>, RunError> {
            let raster = source.read(&source.spec().frame(frame))?;
            let planes = NormalizeChannels::default().planes(&raster)?;
            let [depth, height, width] = source.spec().sides();
            let shape = [1, channels, depth, height, width];
            Ok(Tensor::from_data(TensorData::new(planes, shape), device))
        };
        let (predicted, target) = (tensor(predicted)?, tensor(target)?);
        // For pictures, windows of the structural similarity lie in the plane.
        let numbers = if target.dims()[2] == 1 {
            let flat = |volume: Tensor<5>| volume.squeeze_dim::<4>(2);
            ImageScores::measure(&flat(predicted), &flat(target), range)
        } else {
            ImageScores::measure(&predicted, &target, range)
        };
        score.add(&numbers.into_data().iter().collect::<Vec<f64>>(), 1);
    }
    let higher = |name, unit, value| metric(name, unit, Direction::HigherIsBetter, value);
    Ok(vec![
        higher("pearson", Unit::None, score.pearson()),
        higher("r-squared", Unit::None, score.r_squared()),
        higher("psnr", Unit::Of("dB".into()), score.psnr()),
        higher("ssim", Unit::None, score.ssim()),
    ])
}

fn of_masks(
    predicted: &dyn VolumeSource,
    target: &dyn VolumeSource,
    classes: usize,
    labels: LabelKind,
    device: &Device,
) -> Result<Vec<Metric>, RunError> {
    let mut score = MaskScores::default();
    let (mut surface, mut hausdorff, mut frames) = (0.0, 0.0_f64, 0);
    let spec = *target.spec();
    let sides = spec.raster.sides();
    let voxel = &spec.voxel_um[3 - sides.len()..];
    let is_known = voxel.iter().all(Option::is_some);
    let spacing: Vec<f64> =
        voxel.iter().map(|um| if is_known { um.unwrap_or(1.0) } else { 1.0 }).collect();
    for frame in 0..spec.frames {
        let own = classes_of(&predicted.read(&predicted.spec().frame(frame))?, LabelKind::Classes);
        let other = classes_of(&target.read(&spec.frame(frame))?, labels);
        if let Some(label) = other.iter().find(|&&label| label as usize >= classes) {
            let cause = format!("it has the label {label}; the run has {classes} classes");
            return Err(RunError::Input { path: target.name().into(), cause: cause.into() });
        }
        let of = |classes: &[i64]| classes.iter().map(|&class| class > 0).collect::<Vec<_>>();
        if let Some(distances) = boundary_distances(&of(&own), &of(&other), &sides, &spacing) {
            surface += distances.mean_surface;
            hausdorff = hausdorff.max(distances.hausdorff_95);
            frames += 1;
        }
        let shape = [1, own.len()];
        let own = Tensor::<2, Int>::from_data(TensorData::new(own, shape), device);
        let other = Tensor::<2, Int>::from_data(TensorData::new(other, shape), device);
        // One-hot logits of the predicted class.
        let logits = own.one_hot::<3>(classes).float().swap_dims(1, 2);
        let numbers = MaskScores::measure(&logits, &other, MaskActivation::Softmax);
        score.add(&numbers.into_data().iter().collect::<Vec<f64>>(), 1);
    }
    let share = |name: String, value| metric(name, Unit::Share, Direction::HigherIsBetter, value);
    let mut metrics = vec![
        share("dice".to_owned(), score.mean_dice()),
        share("iou".to_owned(), score.mean_iou()),
    ];
    if classes > 2 {
        metrics.extend((1..classes).map(|class| share(format!("dice-{class}"), score.dice(class))));
    }
    let unit = || Unit::Of(if is_known { "µm" } else { "pixels" }.into());
    let mean = (frames > 0).then(|| surface / f64::from(frames));
    let lower =
        |name: &str, value| metric(name.to_owned(), unit(), Direction::LowerIsBetter, value);
    metrics.push(lower("mean-surface-distance", mean));
    metrics.push(lower("hausdorff-95", (frames > 0).then_some(hausdorff)));
    Ok(metrics)
}

fn classes_of(raster: &Raster<'_>, labels: LabelKind) -> Vec<i64> {
    let class = |value: u16| match labels {
        LabelKind::Classes => i64::from(value),
        LabelKind::Foreground => i64::from(value > 0),
    };
    match raster.pixels() {
        Pixels::U8(values) => values.iter().map(|&value| class(value.into())).collect(),
        Pixels::U16(values) => values.iter().map(|&value| class(value)).collect(),
        Pixels::F32(values) => values.iter().map(|&value| class(value as u16)).collect(),
    }
}

fn metric(
    name: impl Into<std::borrow::Cow<'static, str>>,
    unit: Unit,
    direction: Direction,
    value: Option<f64>,
) -> Metric {
    Metric { spec: MetricSpec::new(name, unit, direction), value }
}
