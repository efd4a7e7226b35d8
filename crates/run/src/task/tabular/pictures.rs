//! Pictures of a regression for the report: predicted against true values, and residuals.

use burn::tensor::{Device, Tensor};
use updraft_data::{InMemoryTensors, Loader};
use updraft_precision::Policy;

use super::model::Regressor;
use crate::error::RunError;
use crate::task::Picture;

/// The largest number of points in a plot.
const MOST_POINTS: usize = 2000;

/// Intervals of the residuals' histogram.
const BINS: usize = 41;

/// Predicted against true values of the test rows, and the histogram of residuals.
pub(super) fn pictures<N: Regressor>(
    network: &N,
    policy: Policy,
    test: &Loader<InMemoryTensors>,
    (target, (mean, std)): (&str, (f64, f64)),
    device: &Device,
) -> Result<Vec<Picture>, RunError> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    for batch in test.epoch(0) {
        let batch = batch?;
        let rows: Tensor<2> = batch.input(device)?;
        let values: Tensor<2> = batch.target_values(device)?;
        let predictions = network.predict(rows.cast(policy.compute)).cast(policy.output);
        let unscaled = |value: f64| value * std + mean;
        let (values, predictions) = (values.into_data(), predictions.into_data());
        let pairs = values.iter::<f64>().zip(predictions.iter::<f64>());
        let unscaled = pairs.map(|(value, predicted)| [unscaled(value), unscaled(predicted)]);
        // Non-finite values cannot be plotted or stored as JSON.
        points.extend(unscaled.filter(|pair| pair.iter().all(|value| value.is_finite())));
    }
    let residuals: Vec<f64> = points.iter().map(|[value, predicted]| predicted - value).collect();
    let most = residuals.iter().fold(0.0_f64, |most, residual| most.max(residual.abs()));
    let mut pictures = Vec::new();
    // At regular intervals, so that every part of the set is included.
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    pictures.push(Picture::Points {
        title: "Predicted against true values of the test rows".to_owned(),
        x_name: format!("true {target}"),
        y_name: format!("predicted {target}"),
        points: points.into_iter().step_by(step).collect(),
        has_diagonal: true,
    });
    if most > 0.0 && most.is_finite() {
        let width = 2.0 * most / BINS as f64;
        let mut counts = vec![0; BINS];
        for residual in residuals {
            let bin = ((residual + most) / width) as usize;
            counts[bin.min(BINS - 1)] += 1;
        }
        pictures.push(Picture::Histogram {
            title: "Residuals of the test rows, predicted less true".to_owned(),
            x_name: format!("residual of {target}"),
            bins: [-most, width],
            counts,
        });
    }
    Ok(pictures)
}
