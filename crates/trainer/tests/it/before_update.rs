//! State of a model that a task changes before an update, without a gradient.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::{Device, Tensor};
use updraft_precision::Policy;
use updraft_testing::{alone, autodiff_devices};
use updraft_trainer::{
    GradientNormWeights, Losses, NonFinite, StepAt, StepContext, StepSettings, StreamError, Task,
    train_step, train_step_accumulated,
};

#[derive(Module, Debug)]
struct Balanced {
    linear: Linear,
    balance: GradientNormWeights,
}

impl Balanced {
    fn new(device: &Device) -> Self {
        device.seed(1);
        let balance = GradientNormWeights::new(2, 0.0, 0.5, device);
        Self { linear: LinearConfig::new(1, 2).init(device), balance }
    }
}

/// The sum of two weighted outputs, whose weights move towards 0.5 and 1.5.
struct Sum;

impl Task<Balanced> for Sum {
    type Batch = Tensor<2>;
    type Input = Tensor<2>;
    type Target = ();
    type Output = (Tensor<2>, Tensor<1>);
    type Score = ();

    fn place(&self, batch: Tensor<2>, _: &Device) -> Result<(Tensor<2>, ()), StreamError> {
        Ok((batch, ()))
    }

    fn forward(
        &self,
        model: &Balanced,
        input: Tensor<2>,
        _: &StepContext,
    ) -> (Tensor<2>, Tensor<1>) {
        (model.linear.forward(input), model.balance.tensor())
    }

    fn loss(&self, (outputs, weights): &(Tensor<2>, Tensor<1>), (): &()) -> Losses {
        (outputs.clone() * weights.clone().unsqueeze::<2>()).mean().into()
    }

    fn before_update(
        &self,
        mut model: Balanced,
        (input, ()): (&Tensor<2>, &()),
        (context, policy): (&StepContext, Policy),
    ) -> Balanced {
        assert_eq!((input.dims(), context.step, policy), ([3, 1], 7, Policy::F32));
        model.balance = model.balance.update(&[3.0, 1.0], &[1.0, 1.0]);
        model
    }

    fn samples(&self, (): &()) -> usize {
        3
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<2>, ()) {
        (Tensor::ones([batch, 1], device), ())
    }
}

const AT: StepAt = StepAt { epoch: 0, step: 7, learning_rate: 0.1, seed: 0 };

#[test]
fn it_is_changed_once_an_update_and_not_by_the_optimizer() {
    let _alone = alone();
    for device in autodiff_devices() {
        let expected = Balanced::new(&device).balance.update(&[3.0, 1.0], &[1.0, 1.0]).weights();
        assert!(expected[0] < expected[1], "{expected:?}");
        let batch = || (Tensor::<2>::ones([3, 1], &device), ());
        let settings = StepSettings::default();
        for batches in [1, 3] {
            let mut optimizer = SgdConfig::new().init();
            let mut scaler = updraft_precision::LossScaler::none();
            let (model, _) = train_step_accumulated(
                &Sum,
                Balanced::new(&device),
                &mut optimizer,
                &mut scaler,
                &mut (0..batches).map(|_| Ok(batch())),
                &settings,
                AT,
            )
            .expect("an update");
            assert_eq!(model.balance.weights(), expected, "{batches} batches");
        }
    }
}

#[test]
fn a_skipped_update_restores_it() {
    let _alone = alone();
    for device in autodiff_devices() {
        let settings =
            StepSettings { non_finite: NonFinite::Skip { at_most: 1 }, ..StepSettings::default() };
        let mut optimizer = SgdConfig::new().init();
        let broken = (Tensor::<2>::full([3, 1], f32::NAN, &device), ());
        let model = Balanced::new(&device);
        let (model, outcome) =
            train_step(&Sum, model, &mut optimizer, broken, &settings, AT).expect("skipped");
        assert!(outcome.skipped.is_some());
        assert_eq!(model.balance.weights(), [1.0, 1.0]);
    }
}
