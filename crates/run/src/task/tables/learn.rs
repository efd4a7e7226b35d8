//! How a batch of rows becomes a loss and the scores of all targets.

use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor, TensorData};
use updraft_kan::Penalty;
use updraft_models::Head;
use updraft_precision::Policy;
use updraft_trainer::{
    ClassScores, Deviations, Direction, LabelScores, Losses, MetricSpec, SegmentedPass,
    StepContext, StreamError, Task, UncertaintyWeights, Unit, with_graph,
};

use super::loss::TargetLoss;
use super::model::{RowModel, RowNetwork};
use super::placed_rows::TableBatch;
use super::score::{
    Measured, MeasuredKind, TableScore, TargetScore, joined, measure_order, ordered_logits,
};
use super::target_plan::{TargetKind, TargetPlan, metric_name};
use super::targets::TargetCode;
use super::tensors::{TableTargets, TargetTensors, ValueTensor};
use super::weighting::gradient_norms;
use crate::task::resident::BatchFrom;

/// The name of the splines' part of the loss.
pub(super) const PENALTY: &str = "penalty";

/// Predicts several targets from rows of classes and numbers.
#[derive(Debug, Clone)]
pub(super) struct Learn {
    pub(super) targets: Vec<Target>,
    /// The columns of categories of the model's input.
    pub(super) categories: usize,
    /// The numbers of a row in the model's input.
    pub(super) numbers: usize,
    /// The penalty of the splines, added to the loss.
    pub(super) penalty: Option<Penalty>,
    /// The updates between two changes of weights by the norms of gradients, if there are such.
    pub(super) balanced_every: Option<u64>,
}

impl Learn {
    /// The same with the scales and the thresholds of stored codes.
    pub(super) fn with_codes(mut self, codes: &[TargetCode]) -> Self {
        let targets = self.targets.into_iter().zip(codes);
        self.targets = targets.map(|(target, code)| target.with_code(code)).collect();
        self
    }

    /// The loss of each target, without its weight.
    pub(super) fn target_losses(
        &self,
        outputs: &[Tensor<2>],
        targets: &TableTargets,
    ) -> Vec<Tensor<1>> {
        let each = self.targets.iter().zip(outputs).zip(&targets.targets);
        let losses = each.map(|((target, outputs), truth)| {
            if truth.present == 0 {
                // Zero rows; keeps the graph, in which every output has a gradient.
                return outputs.clone().sum().mul_scalar(0.0);
            }
            target.loss(truth.of(outputs), &truth.values)
        });
        losses.collect()
    }
}

/// A target with its head and loss.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The column.
    pub(super) column: String,
    pub(super) kind: TargetKind,
    pub(super) loss: TargetLoss,
    pub(super) weight: f64,
    pub(super) head: Head,
    /// The weight of each class in the loss.
    pub(super) class_weights: Option<Vec<f32>>,
    /// The standard deviation of the target, in its own unit.
    pub(super) std: f64,
    /// The probability from which each label is predicted.
    pub(super) thresholds: Vec<f32>,
}

impl Target {
    /// A target with the head for its data; class weights are set from the data.
    pub(super) fn new(column: &str, plan: &TargetPlan, head: Head) -> Self {
        let labels = if let Head::Labels(labels) = head { labels } else { 0 };
        Self {
            column: column.to_owned(),
            kind: plan.kind,
            loss: plan.loss.clone(),
            weight: plan.weight,
            head,
            class_weights: None,
            std: 1.0,
            thresholds: vec![0.5; labels],
        }
    }

    /// The same with the scale of a number and the thresholds of labels.
    pub(super) fn with_code(mut self, code: &TargetCode) -> Self {
        match code {
            TargetCode::Number { std, .. } => self.std = *std,
            TargetCode::Labels { thresholds, .. } => self.thresholds.clone_from(thresholds),
            TargetCode::Classes { .. } | TargetCode::Ordered { .. } => {}
        }
        self
    }

    /// The log probabilities of classes, up to a constant per row.
    pub(super) fn class_logits(&self, outputs: &Tensor<2>) -> Tensor<2> {
        match self.head {
            Head::Ordered(_) => ordered_logits(outputs),
            _ => outputs.clone(),
        }
    }

    /// The predicted number of each row, standardized, `[rows, 1]`: of quantiles the middle one.
    pub(super) fn number(&self, outputs: &Tensor<2>) -> Tensor<2> {
        let middle = (self.head.width() - 1) / 2;
        outputs.clone().narrow(1, middle, 1)
    }

    fn loss(&self, outputs: Tensor<2>, values: &ValueTensor) -> Tensor<1> {
        match values {
            ValueTensor::Classes(classes) => {
                self.loss.of_classes(outputs, classes.clone(), self.class_weights.as_deref())
            }
            ValueTensor::Numbers(values) => {
                let values = values.clone().cast(outputs.dtype());
                self.loss.of_values(outputs, values)
            }
        }
    }

    fn measure(&self, outputs: &Tensor<2>, values: &ValueTensor) -> Vec<Tensor<1>> {
        match (self.kind, values) {
            (TargetKind::Classes, ValueTensor::Classes(classes)) => {
                vec![ClassScores::measure(outputs, classes)]
            }
            (TargetKind::Ordered, ValueTensor::Classes(classes)) => {
                let logits = self.class_logits(outputs);
                vec![ClassScores::measure(&logits, classes), measure_order(&logits, classes)]
            }
            (TargetKind::Labels, ValueTensor::Numbers(values)) => {
                vec![LabelScores::measure(outputs, values, &self.thresholds)]
            }
            (TargetKind::Number, ValueTensor::Numbers(values)) => {
                vec![Deviations::measure(&self.number(outputs), values)]
            }
            _ => unreachable!("classes have classes, and the others numbers"),
        }
    }

    const fn measured_kind(&self) -> MeasuredKind {
        match self.kind {
            TargetKind::Number => MeasuredKind::Number,
            TargetKind::Classes => MeasuredKind::Classes,
            TargetKind::Ordered => MeasuredKind::Ordered,
            TargetKind::Labels => MeasuredKind::Labels,
        }
    }

    /// Its metrics, in the order of [`values`](Self::values).
    fn metrics(&self) -> Vec<MetricSpec> {
        let of = metric_name(&self.column);
        let own = |spec: MetricSpec| {
            let title = format!("{} of {}", spec.title(), self.column);
            let spec = MetricSpec { name: format!("{of}-{}", spec.name).into(), ..spec };
            spec.with_long_name(title)
        };
        let error = |name: &'static str, long: &'static str, unit: Unit| {
            MetricSpec::new(name, unit, Direction::LowerIsBetter).with_long_name(long)
        };
        let specs = match self.kind {
            TargetKind::Classes => ClassScores::specs(),
            TargetKind::Ordered => {
                let mut specs = ClassScores::specs();
                let unit = Unit::Of("classes".into());
                specs.push(error("mae", "mean distance in classes", unit));
                specs
            }
            TargetKind::Labels => LabelScores::specs(),
            TargetKind::Number => {
                let unit = Unit::Of(self.column.clone().into());
                vec![
                    error("mae", "mean absolute error", unit.clone()),
                    error("rmse", "root mean squared error", unit),
                    MetricSpec::new("r-squared", Unit::None, Direction::HigherIsBetter)
                        .with_long_name("coefficient of determination, R²,"),
                ]
            }
        };
        specs.into_iter().map(own).collect()
    }

    /// The value of each metric; `None` where it is not defined.
    fn values(&self, score: Option<&TargetScore>) -> Vec<Option<f64>> {
        match score {
            None => vec![None; self.metrics().len()],
            Some(TargetScore::Classes(score)) => score.values(),
            Some(TargetScore::Ordered(score, steps)) => {
                let mut values = score.values();
                values.push(steps.mean_absolute_error(0));
                values
            }
            Some(TargetScore::Labels(score)) => score.values(),
            Some(TargetScore::Number(score)) => vec![
                score.mean_absolute_error(0).map(|error| error * self.std),
                score.root_mean_squared_error(0).map(|error| error * self.std),
                score.r_squared(),
            ],
        }
    }
}

/// The classes and the numbers of rows.
pub(super) type RowInput = (Tensor<2, Int>, Tensor<2>);

/// The outputs for each target, the weights of their losses, and the penalty of the splines.
pub(super) type RowOutput = (Vec<Tensor<2>>, OutputWeights, Option<Tensor<1>>);

/// Learned logarithms of variances, or weights that follow the norms of gradients.
type OutputWeights = (Option<Tensor<1>>, Option<Tensor<1>>);

/// Moves the classes and numbers of `rows` rows to a device.
pub(super) fn place_rows(
    (classes, numbers): (Vec<i32>, Vec<f32>),
    rows: usize,
    device: &Device,
) -> RowInput {
    let (columns, width) = (classes.len() / rows.max(1), numbers.len() / rows.max(1));
    let classes = TensorData::new(classes, [rows, columns]);
    let numbers = TensorData::new(numbers, [rows, width]);
    (Tensor::from_data(classes, device), Tensor::from_data(numbers, device))
}

impl<N: RowNetwork> Task<RowModel<N>> for Learn {
    type Batch = TableBatch;
    type Input = RowInput;
    type Target = TableTargets;
    type Output = RowOutput;
    type Score = TableScore;

    fn place(
        &self,
        batch: TableBatch,
        device: &Device,
    ) -> Result<(RowInput, TableTargets), StreamError> {
        let batch = match batch {
            BatchFrom::Loader(batch) => batch,
            BatchFrom::Device(((classes, numbers), targets)) => {
                let input = (with_graph(classes, device), with_graph(numbers, device));
                let placed = targets.targets.iter().map(|target| target.with_graph(device));
                return Ok((input, TableTargets { targets: placed.collect(), ..targets }));
            }
        };
        let rows = batch.indices.len();
        let targets = batch.targets.into_iter();
        let targets = targets.map(|target| TargetTensors::place(target, rows, device)).collect();
        let input = place_rows((batch.classes, batch.numbers), rows, device);
        Ok((input, TableTargets { rows, targets }))
    }

    fn forward(
        &self,
        model: &RowModel<N>,
        (classes, numbers): RowInput,
        _: &StepContext,
    ) -> RowOutput {
        let penalty = self.penalty.and_then(|penalty| penalty.of(model));
        (model.outputs(classes, numbers), (model.log_variances(), model.balance()), penalty)
    }

    fn loss(
        &self,
        (outputs, (log_variances, balance), penalty): &RowOutput,
        targets: &TableTargets,
    ) -> Losses {
        let losses = self.target_losses(outputs, targets);
        let weighted = losses.iter().zip(&self.targets);
        let weighted = weighted.map(|(loss, target)| match target.weight {
            1.0 => loss.clone(),
            weight => loss.clone().mul_scalar(weight),
        });
        let mut total = match (log_variances, balance) {
            (Some(log_variances), _) => {
                UncertaintyWeights::weighed(log_variances.clone(), weighted.collect())
            }
            (None, Some(balance)) => {
                let losses = Tensor::cat(weighted.collect(), 0);
                // burn's `sum` of a whole tensor adds with atomics on some GPUs, in an order that
                // varies.
                (balance.clone().cast(losses.dtype()) * losses).sum_dim(0)
            }
            (None, None) => weighted.reduce(|sum, loss| sum + loss).expect("a plan has a target"),
        };
        let mut parts = if losses.len() > 1 { losses } else { Vec::new() };
        if let Some(penalty) = penalty {
            let dtype = FloatDType::from(total.dtype());
            total = total + penalty.clone().cast(dtype);
            parts.push(penalty.clone());
        }
        Losses { total, parts }
    }

    fn before_update(
        &self,
        model: RowModel<N>,
        batch: (&RowInput, &TableTargets),
        (context, policy): (&StepContext, Policy),
    ) -> RowModel<N> {
        match self.balanced_every {
            Some(every) if context.step.is_multiple_of(every) => {
                model.balanced(|network| gradient_norms(self, network, batch, policy))
            }
            _ => model,
        }
    }

    fn samples(&self, targets: &TableTargets) -> usize {
        targets.rows
    }

    fn example(&self, batch: usize, device: &Device) -> (RowInput, TableTargets) {
        let classes = Tensor::zeros([batch, self.categories], device);
        let numbers = Tensor::random([batch, self.numbers], Distribution::Default, device);
        let target = |target: &Target| TargetTensors {
            rows: None,
            present: batch,
            values: match target.kind {
                TargetKind::Classes | TargetKind::Ordered => {
                    ValueTensor::Classes(Tensor::zeros([batch], device))
                }
                TargetKind::Number => ValueTensor::Numbers(Tensor::zeros([batch, 1], device)),
                TargetKind::Labels => {
                    ValueTensor::Numbers(Tensor::zeros([batch, target.head.width()], device))
                }
            },
        };
        let targets = self.targets.iter().map(target).collect();
        ((classes, numbers), TableTargets { rows: batch, targets })
    }

    fn parts(&self) -> Vec<String> {
        let of_targets = match self.targets.len() {
            1 => &[],
            _ => &*self.targets,
        };
        let of_targets = of_targets.iter().map(|target| metric_name(&target.column));
        of_targets.chain(self.penalty.map(|_| PENALTY.to_owned())).collect()
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        self.targets.iter().flat_map(Target::metrics).collect()
    }

    fn measure(&self, (outputs, ..): &RowOutput, targets: &TableTargets) -> Option<Tensor<1>> {
        let each = self.targets.iter().zip(outputs).zip(&targets.targets);
        joined(
            each.map(|((target, outputs), truth)| {
                let outputs = outputs.clone().cast(FloatDType::F32);
                let numbers = match truth.present {
                    0 => Vec::new(),
                    _ => target.measure(&truth.of(&outputs), &truth.values),
                };
                Measured { kind: target.measured_kind(), rows: truth.present, numbers }
            })
            .collect(),
        )
    }

    fn values(&self, score: &TableScore) -> Vec<Option<f64>> {
        let each = self.targets.iter().enumerate();
        each.flat_map(|(at, target)| target.values(score.targets.get(at))).collect()
    }

    fn segments(
        &self,
    ) -> Result<&dyn SegmentedPass<RowModel<N>, RowInput, RowOutput>, &'static str> {
        Err("its networks are a few small layers")
    }
}
