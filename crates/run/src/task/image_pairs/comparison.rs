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
use crate::task::FilePrediction;

/// Returns an error for a file to compare with that has another size than the input or other channels
/// than the prediction, before the prediction.
pub(in crate::task) fn check_compared(
    request: &FilePrediction,
    input: &dyn VolumeSource,
    (data, objective): (&DataPlan, &Objective),
    outputs: usize,
) -> Result<(), RunError> {
    let is_mask = matches!(objective, Objective::Masks { .. });
    let channels = if is_mask && !request.keeps_channels { 1 } else { outputs };
    for path in request.truth.iter().chain(&request.compare_with) {
        let other = open_volume(path, &data.open_config())?;
        check_size(path, &*other, input, "the input")?;
        check_channels(path, &*other, channels)?;
    }
    Ok(())
}

fn check_channels(path: &Path, source: &dyn VolumeSource, channels: usize) -> Result<(), RunError> {
    let own = source.spec().raster.channels;
    if own == channels {
        return Ok(());
    }
    let cause = format!("it has {}, the prediction {channels}", counted(own, "channel"));
    Err(RunError::Input { path: path.to_owned(), cause: cause.into() })
}

fn counted(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

/// The metrics of a prediction by the files that it is compared with.
pub(in crate::task) fn compared(
    request: &FilePrediction,
    own: (&DataPlan, &Objective),
    device: &Device,
) -> Result<Vec<Metric>, RunError> {
    let mut metrics = match &request.truth {
        None => Vec::new(),
        Some(truth) => compare(&request.output, truth, own, device)?,
    };
    if let Some(other) = &request.compare_with {
        let is_class = matches!(own.1, Objective::Masks { .. }) && !request.keeps_channels;
        metrics.extend(differences(&request.output, other, own.0, is_class)?);
    }
    Ok(metrics)
}

fn check_size(
    path: &Path,
    source: &dyn VolumeSource,
    other: &dyn VolumeSource,
    name: &str,
) -> Result<(), RunError> {
    let size = |source: &dyn VolumeSource| (source.spec().frames, source.spec().raster.sides());
    if size(source) == size(other) {
        return Ok(());
    }
    let text = |(frames, sides)| format!("{} of {sides:?}", counted(frames, "frame"));
    let cause = format!("it has {}, {name} {}", text(size(source)), text(size(other)));
    Err(RunError::Input { path: path.to_owned(), cause: cause.into() })
}

/// The metrics of a prediction over all frames; for masks also the distances between boundaries.
fn compare(
    predicted: &Path,
    target_path: &Path,
    (data, objective): (&DataPlan, &Objective),
    device: &Device,
) -> Result<Vec<Metric>, RunError> {
    let config = data.open_config();
    let predicted = open_volume(predicted, &config)?;
    let target = open_volume(target_path, &config)?;
    check_size(target_path, &*target, &*predicted, "the prediction")?;
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

/// The mean and the largest absolute difference of two predictions in files of one size, or the fraction
/// of positions whose classes differ. Each frame is in memory at once.
fn differences(
    predicted: &Path,
    other_path: &Path,
    data: &DataPlan,
    is_class: bool,
) -> Result<Vec<Metric>, RunError> {
    let config = data.open_config();
    let predicted = open_volume(predicted, &config)?;
    let other = open_volume(other_path, &config)?;
    check_size(other_path, &*other, &*predicted, "the prediction")?;
    check_channels(other_path, &*other, predicted.spec().raster.channels)?;
    let (mut sum, mut count, mut largest) = (0.0_f64, 0_usize, 0.0_f64);
    for frame in 0..predicted.spec().frames {
        let planes = |source: &dyn VolumeSource| -> Result<Vec<f32>, RunError> {
            let raster = source.read(&source.spec().frame(frame))?;
            Ok(NormalizeChannels::default().planes(&raster)?)
        };
        for (own, other) in planes(&*predicted)?.into_iter().zip(planes(&*other)?) {
            let difference = f64::from((own - other).abs());
            let difference = if is_class { f64::from(own != other) } else { difference };
            sum += difference;
            // A difference that is not a number is the largest.
            largest =
                if difference > largest || difference.is_nan() { difference } else { largest };
            count += 1;
        }
    }
    let mean = (count > 0).then(|| sum / count as f64);
    let lower =
        |name: &str, unit, value| metric(name.to_owned(), unit, Direction::LowerIsBetter, value);
    Ok(match is_class {
        true => vec![lower("differing-positions", Unit::Share, mean)],
        false => vec![
            lower("mean-difference", Unit::None, mean),
            lower("largest-difference", Unit::None, Some(largest)),
        ],
    })
}

fn of_images(
    predicted: &dyn VolumeSource,
    target: &dyn VolumeSource,
    path: &Path,
    device: &Device,
) -> Result<Vec<Metric>, RunError> {
    let channels = predicted.spec().raster.channels;
    check_channels(path, target, channels)?;
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
    let higher = |name: String, unit, value| metric(name, unit, Direction::HigherIsBetter, value);
    let lower =
        |name: &str, value| metric(name.to_owned(), Unit::None, Direction::LowerIsBetter, value);
    let mut metrics = vec![higher("pearson".into(), Unit::None, score.pearson())];
    if channels > 1 {
        let of = |channel| (format!("pearson-{}", channel + 1), score.pearson_of(channel));
        let each = (0..channels).map(of);
        metrics.extend(each.map(|(name, value)| higher(name, Unit::None, value)));
    }
    metrics.extend([
        higher("r-squared".into(), Unit::None, score.r_squared()),
        higher("psnr".into(), Unit::Of("dB".into()), score.psnr()),
        higher("ssim".into(), Unit::None, score.ssim()),
        lower("mean-absolute-error", score.mean_absolute_error()),
    ]);
    Ok(metrics)
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
    // A prediction has the voxel size of its input, which a mask often lacks.
    let known = [&spec, predicted.spec()].into_iter().find_map(|spec| {
        spec.voxel_um[3 - sides.len()..].iter().copied().collect::<Option<Vec<f64>>>()
    });
    let (is_known, spacing) = (known.is_some(), known.unwrap_or_else(|| vec![1.0; sides.len()]));
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
