//! The weights of the losses of several targets.

use burn::module::{ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};
use updraft_precision::{Policy, norm_of, square_sums};
use updraft_trainer::{GradientNormWeights, Tensors, UncertaintyWeights};

use super::learn::{Learn, RowInput};
use super::model::RowNetwork;
use super::tensors::TableTargets;
use crate::config::{ConfigError, Key, Settings, is_finite_in_f32};

pub(super) const NAME: &str = "train.target_weights";
pub(super) const WEIGHTING: Key<WeightingKind> = Key::new(
    NAME,
    "or `uncertainty`, which also learns a weight for the loss of each target; or `gradient-norm`, whose weights balance the gradients of the targets",
)
.default(r#""fixed""#);
pub(super) const PULL: Key<f64> = Key::new(
    "train.gradient_norm_pull",
    "`gradient-norm`: how much higher the weight of a target is whose loss falls slowly; 0 makes all gradients equal",
)
.default("1.5")
.check("a finite number of at least 0, at most 3.4e38 as f32", |pull: &f64| {
    is_finite_in_f32(pull) && *pull >= 0.0
})
.decided_by(&[NAME]);
pub(super) const RATE: Key<f64> = Key::new(
    "train.gradient_norm_rate",
    "`gradient-norm`: the fraction of the way to the balance that the weights take at once",
)
.default("0.1")
.check("above 0 and at most 1", |rate| *rate > 0.0 && *rate <= 1.0)
.decided_by(&[NAME]);
pub(super) const EVERY: Key<u64> = Key::new(
    "train.gradient_norm_every",
    "`gradient-norm`: updates between two changes of the weights; each needs a forward and a backward pass for every target",
)
.default("10")
.check("at least 1", |every| *every >= 1)
.decided_by(&[NAME]);

/// The values of `train.target_weights`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WeightingKind {
    Fixed,
    Uncertainty,
    GradientNorm,
}

/// How the losses of several targets are combined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weighting {
    /// Their sum, each multiplied by its target's weight.
    Fixed,
    /// The same with weights that are learned parameters.
    Uncertainty,
    /// The same with weights that follow the norms of the gradients.
    GradientNorm { pull: f64, rate: f64, every: u64 },
}

impl Weighting {
    /// Reads the keys of the weights of `targets` targets.
    pub(super) fn read(settings: &Settings, targets: usize) -> Result<Self, ConfigError> {
        match settings.value(&WEIGHTING)? {
            WeightingKind::Fixed => Ok(Self::Fixed),
            WeightingKind::Uncertainty => Ok(Self::Uncertainty),
            WeightingKind::GradientNorm if targets < 2 => Err(settings.refuse_given(
                NAME,
                "`fixed` or `uncertainty` with a single target: there is no other gradient to \
                 balance",
            )),
            WeightingKind::GradientNorm => Ok(Self::GradientNorm {
                pull: settings.value(&PULL)?,
                rate: settings.value(&RATE)?,
                every: settings.value(&EVERY)?,
            }),
        }
    }

    /// Returns an error for weights that need shared layers and a network that has none.
    pub(super) fn check_network(
        self,
        settings: &Settings,
        has_shared_layers: bool,
    ) -> Result<(), ConfigError> {
        if has_shared_layers || !matches!(self, Self::GradientNorm { .. }) {
            return Ok(());
        }
        let expected = "`fixed` or `uncertainty` for a network without hidden layers: the targets \
                        share none whose gradients could be balanced";
        Err(settings.refuse_given(NAME, expected))
    }

    /// The updates between two changes of the weights by the norms of the gradients.
    pub(super) const fn every(self) -> Option<u64> {
        match self {
            Self::GradientNorm { every, .. } => Some(every),
            Self::Fixed | Self::Uncertainty => None,
        }
    }

    /// The weights of `losses` losses that are not fixed, before training.
    pub(super) fn init(self, losses: usize, device: &Device) -> LossWeights {
        let mut weights = LossWeights::default();
        match self {
            Self::Fixed => {}
            Self::Uncertainty => {
                weights.uncertainty = Some(UncertaintyWeights::new(losses, device));
            }
            Self::GradientNorm { pull, rate, .. } => {
                weights.balance = Some(GradientNormWeights::new(losses, pull, rate, device));
            }
        }
        weights
    }
}

/// The weights of the losses that are not fixed: of at most one kind.
#[derive(Debug, Default)]
pub(super) struct LossWeights {
    pub(super) uncertainty: Option<UncertaintyWeights>,
    pub(super) balance: Option<GradientNormWeights>,
}

/// The norm of the gradient of each target's loss with respect to the layers that the targets
/// share, and the losses; `None` if a target has no value in the batch.
pub(super) fn gradient_norms<N: RowNetwork>(
    learn: &Learn,
    network: &N,
    (input, targets): (&RowInput, &TableTargets),
    policy: Policy,
) -> Option<(Vec<f64>, Vec<f64>)> {
    if targets.targets.iter().any(|target| target.present == 0) {
        return None;
    }
    let count = targets.targets.len();
    let head_path = network.head_path();
    let mut read = Vec::new();
    let mut norms = Vec::new();
    for at in 0..count {
        // A backward pass uses up the graph of its forward pass.
        let (classes, numbers) = input.clone().cast_floats(policy.compute);
        let outputs = network.outputs(classes, numbers).cast_floats(policy.output);
        let loss = learn.target_losses(&outputs, targets).swap_remove(at);
        read.push(loss.clone().without_autodiff().cast(FloatDType::F32));
        // The sum over the rows: a mean may underflow in narrow dtypes. The factor is the same for
        // all targets.
        let sum = loss.mul_scalar(targets.rows as f64);
        let mut gradients = GradientsParams::from_grads(sum.backward(), network);
        let heads = head_path.split('.').collect();
        network.visit(&mut DropHeads { heads, path: Vec::new(), gradients: &mut gradients });
        let squares = square_sums(&gradients, network)?;
        norms.push(norm_of(&squares.into_data().iter::<f64>().collect::<Vec<_>>()));
    }
    let losses = Tensor::cat(read, 0).into_data().iter().collect();
    Some((norms, losses))
}

/// Removes the gradients of the heads, which the targets do not share.
struct DropHeads<'a> {
    heads: Vec<&'a str>,
    path: Vec<String>,
    gradients: &'a mut GradientsParams,
}

impl ModuleVisitor for DropHeads<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let is_inside = self.path.len() >= self.heads.len();
        if is_inside && self.path.iter().zip(&self.heads).all(|(name, head)| name == head) {
            self.gradients.remove::<D>(param.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Int, TensorData};
    use updraft_models::{
        Head, InteractionConfig, RowFeatures, SplineNetConfig, TableNetConfig, Trunk,
    };
    use updraft_testing::{
        assert_close, autodiff_devices, in_dtype, parameter_gradients, scattered, tolerance,
    };

    use super::super::target_plan::TargetKind;
    use super::super::tensors::{TargetTensors, ValueTensor};
    use super::*;
    use crate::task::tables::learn::Target;
    use crate::task::tables::loss::TargetLoss;

    const ROWS: usize = 6;

    fn learn(heads: &[Head]) -> Learn {
        let kinds = [TargetKind::Number, TargetKind::Labels];
        let target = |(&head, kind)| Target {
            column: "y".to_owned(),
            kind,
            loss: TargetLoss::of(kind),
            weight: 1.0,
            head,
            class_weights: None,
            std: 1.0,
            thresholds: vec![0.5; head.width()],
        };
        let targets = heads.iter().zip(kinds).map(target).collect();
        Learn { targets, categories: 1, numbers: 2, penalty: None, balanced_every: Some(1) }
    }

    fn batch(device: &Device) -> (RowInput, TableTargets) {
        let floats = |seed, width: usize| {
            let numbers = scattered(seed, ROWS * width);
            Tensor::<2>::from_data(TensorData::new(numbers, [ROWS, width]), device)
        };
        let classes = TensorData::new(vec![0_i32, 1, 2, 0, 1, 2], [ROWS, 1]);
        let classes = Tensor::<2, Int>::from_data(classes, device);
        let values = [floats(1, 1), floats(2, 3).greater_elem(0.0).float()];
        let target = |values| TargetTensors {
            rows: None,
            present: ROWS,
            values: ValueTensor::Numbers(values),
        };
        let targets = values.into_iter().map(target).collect();
        ((classes, floats(3, 2)), TableTargets { rows: ROWS, targets })
    }

    /// The norms times the number of rows, and the losses, by burn's own gradients in f64.
    fn expected<N: RowNetwork>(network: &N, learn: &Learn, device: &Device) -> [Vec<f64>; 2] {
        let wide = in_dtype(network.clone(), FloatDType::F64);
        let ((classes, numbers), targets) = batch(device);
        let targets = targets.cast_floats(FloatDType::F64);
        let (mut norms, mut losses) = (Vec::new(), Vec::new());
        for at in 0..targets.targets.len() {
            let outputs = wide.outputs(classes.clone(), numbers.clone().cast(FloatDType::F64));
            let loss = learn.target_losses(&outputs, &targets).swap_remove(at);
            losses.push(loss.clone().without_autodiff().into_data().iter::<f64>().sum());
            let gradients = parameter_gradients(&wide, &loss.backward());
            let shared = gradients.iter().filter(|it| !it.path.starts_with(&wide.head_path()));
            let values = shared.flat_map(|gradient| gradient.values.iter().flatten());
            norms.push(ROWS as f64 * values.map(|value| value * value).sum::<f64>().sqrt());
        }
        [norms, losses]
    }

    fn check<N: RowNetwork>(network: &N, learn: &Learn, device: &Device) {
        let (input, targets) = batch(device);
        let measured = gradient_norms(learn, network, (&input, &targets), Policy::F32);
        let (norms, losses) = measured.expect("every target has values");
        let [expected_norms, expected_losses] = expected(network, learn, device);
        assert!(expected_norms.iter().all(|norm| *norm > 0.0), "{expected_norms:?}");
        assert_close(&norms, &expected_norms, tolerance::F32_DEEP);
        assert_close(&losses, &expected_losses, tolerance::F32_DEEP);
    }

    #[test]
    fn norms_are_those_of_the_shared_parameters_in_f64() {
        let _alone = updraft_testing::alone();
        for device in autodiff_devices() {
            let heads = [Head::Numbers(1), Head::Labels(3)];
            let learn = learn(&heads);
            let features = RowFeatures { class_counts: vec![3], numbers: 2 };
            let trunk =
                TableNetConfig::new(features.clone(), heads).with_hidden([8, 8]).with_dropout(0.0);
            check(&trunk.init(&device), &learn, &device);
            check(&trunk.with_trunk(Trunk::Residual).init(&device), &learn, &device);
            let interaction =
                InteractionConfig::new(features.clone(), heads).with_embedding(4).with_hidden(8);
            check(&interaction.init(&device), &learn, &device);
            let splines = SplineNetConfig::new(features, heads).with_hidden([4]);
            check(&splines.init(&device), &learn, &device);
        }
    }

    #[test]
    fn a_batch_without_a_value_of_a_target_changes_no_weight() {
        let _alone = updraft_testing::alone();
        for device in autodiff_devices() {
            let heads = [Head::Numbers(1), Head::Labels(3)];
            let features = RowFeatures { class_counts: vec![3], numbers: 2 };
            let network = TableNetConfig::new(features, heads).init(&device);
            let (input, mut targets) = batch(&device);
            targets.targets[0].present = 0;
            let of = (&input, &targets);
            assert!(gradient_norms(&learn(&heads), &network, of, Policy::F32).is_none());
        }
    }
}
