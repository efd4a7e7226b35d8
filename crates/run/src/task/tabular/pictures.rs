//! Pictures of a regression for the report: predicted against true values, and residuals.

use burn::tensor::{Device, Tensor};
use updraft_data::{InMemoryTensors, Loader};
use updraft_precision::Policy;

use super::model::Regressor;
use crate::error::RunError;
use crate::task::Picture;
use crate::task::residuals::residual_pictures;

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
        points.extend(unscaled);
    }
    Ok(residual_pictures(target, points))
}
