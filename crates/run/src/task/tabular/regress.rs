//! How a batch of rows becomes a loss and a score.

use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_data::TensorBatch;
use updraft_kan::Penalty;
use updraft_trainer::{
    Deviations, Direction, Losses, MetricSpec, SegmentedPass, StepContext, StreamError, Task, Unit,
};

use super::loss::ValueLoss;
use super::model::Regressor;

/// Predicts a standardized number from rows `[batch, inputs]`.
#[derive(Debug, Clone)]
pub(super) struct Regress {
    /// The target's column.
    pub(super) target: String,
    pub(super) loss: ValueLoss,
    /// The penalty of the splines, added to the loss.
    pub(super) penalty: Option<Penalty>,
    /// The standard deviation of the target, in its own unit.
    pub(super) std: f64,
    /// The numbers of a row in the model's input.
    pub(super) inputs: usize,
}

/// The predicted numbers, and the penalty of the splines if there is one.
type Predicted = (Tensor<2>, Option<Tensor<1>>);

impl<N: Regressor> Task<N> for Regress {
    type Batch = TensorBatch;
    type Input = Tensor<2>;
    type Target = Tensor<2>;
    type Output = Predicted;
    type Score = Deviations;

    fn place(
        &self,
        batch: TensorBatch,
        device: &Device,
    ) -> Result<(Tensor<2>, Tensor<2>), StreamError> {
        Ok((batch.input(device)?, batch.target_values(device)?))
    }

    fn forward(&self, model: &N, rows: Tensor<2>, _: &StepContext) -> Predicted {
        let penalty = self.penalty.and_then(|penalty| penalty.of(model));
        (model.predict(rows), penalty)
    }

    fn loss(&self, (predictions, penalty): &Predicted, values: &Tensor<2>) -> Losses {
        let values = values.clone().cast(predictions.dtype());
        let loss = self.loss.forward(predictions.clone(), values);
        match penalty {
            Some(penalty) => Losses {
                total: loss.clone() + penalty.clone().cast(FloatDType::from(loss.dtype())),
                parts: vec![penalty.clone()],
            },
            None => loss.into(),
        }
    }

    fn parts(&self) -> Vec<String> {
        self.penalty.iter().map(|_| "penalty".to_owned()).collect()
    }

    fn samples(&self, values: &Tensor<2>) -> usize {
        values.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<2>, Tensor<2>) {
        let rows = Tensor::random([batch, self.inputs], Distribution::Default, device);
        (rows, Tensor::zeros([batch, 1], device))
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        let unit = Unit::Of(self.target.clone().into());
        vec![
            MetricSpec::new("rmse", unit, Direction::LowerIsBetter)
                .with_long_name("root mean squared error"),
            MetricSpec::new("r-squared", Unit::None, Direction::HigherIsBetter)
                .with_long_name("coefficient of determination, R²"),
        ]
    }

    fn measure(&self, (predictions, _): &Predicted, values: &Tensor<2>) -> Option<Tensor<1>> {
        Some(Deviations::measure(predictions, values))
    }

    fn segments(&self) -> Result<&dyn SegmentedPass<N, Tensor<2>, Predicted>, &'static str> {
        Err("its networks are a few small layers")
    }

    fn values(&self, score: &Deviations) -> Vec<Option<f64>> {
        let rmse = score.root_mean_squared_error(0).map(|error| error * self.std);
        vec![rmse, score.r_squared()]
    }
}
