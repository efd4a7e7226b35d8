//! A small model through scaled f16 steps, some of which overflow.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, FloatDType, Tensor, TensorData};
use updraft_precision::{
    DynamicScale, LossScale, LossScaler, Policy, PrecisionError, Unscaled, attempt, square_sums,
};
use updraft_testing::{alone, assert_close, autodiff_devices, tolerance};

#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    norm: BatchNorm,
    output: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        let net = Self {
            hidden: LinearConfig::new(6, 16).with_bias(false).init(device),
            norm: BatchNormConfig::new(16).init(device),
            output: LinearConfig::new(16, 1).with_bias(false).init(device),
        };
        // burn draws a parameter when it is first used; draw all of them now, in module order.
        net.visit(&mut Bits(Vec::new()));
        net
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let dtype: FloatDType = x.dtype().into();
        let x = self.hidden.forward(x);
        let x = self.norm.forward(x.cast(FloatDType::F32)).cast(dtype);
        self.output.forward(relu(x))
    }

    /// The bits of every parameter and of every running statistic.
    fn bits(&self) -> Vec<u32> {
        let mut bits = Bits(Vec::new());
        // Synchronizes the running statistics, which a visit alone sees one update late.
        self.valid().visit(&mut bits);
        bits.0
    }
}

struct Bits(Vec<u32>);

impl ModuleVisitor for Bits {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.base().into_data().iter::<f32>().map(f32::to_bits));
    }
}

/// The planted fault of a step.
#[derive(Clone, Copy, PartialEq)]
enum Plant {
    Nothing,
    Overflow,
}

struct Trainer {
    net: Net,
    optimizer: ModuleOptimizer,
    scaler: LossScaler,
    policy: Policy,
    inputs: Tensor<2>,
    targets: Tensor<2>,
}

impl Trainer {
    fn new(device: &Device, policy: Policy, scale: LossScale) -> Self {
        policy.check_training_scaled(&scale).expect("a policy that trains");
        // flex has one random state for all threads: nothing here is drawn from it.
        let column = |at: usize| (((at * 7 + 3) % 23) as f32 - 11.0) / 11.0;
        let inputs: Vec<f32> = (0..32 * 6).map(column).collect();
        let targets: Vec<f32> =
            inputs.chunks(6).map(|row| row[0] * row[1] + 0.5 * row[2]).collect();
        let net = Net::new(device).map(&mut Deterministic(0));
        Self {
            net: policy.autocast(net),
            optimizer: AdamWConfig::new().init(),
            scaler: LossScaler::try_new(scale).expect("valid"),
            policy,
            inputs: Tensor::from_data(TensorData::new(inputs, [32, 6]), device),
            targets: Tensor::from_data(TensorData::new(targets, [32, 1]), device),
        }
    }

    /// One step as a trainer makes it; the loss, or `None` where it was skipped.
    fn step(&mut self, plant: Plant) -> Result<Option<f64>, PrecisionError> {
        let trial = attempt(&self.net);
        let output = trial.forward(self.inputs.clone().cast(self.policy.compute));
        let error = output.cast(self.policy.output) - self.targets.clone();
        let loss = error.powf_scalar(2.0).mean();
        let value = loss.clone().into_scalar::<f32>();
        let loss = match plant {
            Plant::Nothing => loss,
            Plant::Overflow => loss.mul_scalar(f32::MAX).mul_scalar(f32::MAX),
        };
        let gradients = self.scaler.scale_loss(loss).backward();
        let gradients = GradientsParams::from_grads(gradients, &trial);
        match self.scaler.unscale(gradients, &trial, Some(1.0))? {
            Unscaled::Skip { .. } => Ok(None),
            Unscaled::Update { gradients, norm } => {
                assert!(norm.is_finite());
                self.net = self.optimizer.step(5e-3, trial, gradients);
                Ok(Some(f64::from(value)))
            }
        }
    }
}

/// Weights that depend only on their position.
struct Deterministic(usize);

impl ModuleMapper for Deterministic {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D != 2 {
            return param;
        }
        self.0 += 1;
        let first = self.0;
        param.map(|tensor| {
            let (shape, device) = (tensor.shape(), tensor.device());
            let count = shape.num_elements();
            let value = |at: usize| (((at * 13 + first * 5) % 17) as f32 - 8.0) / 24.0;
            let values: Vec<f32> = (0..count).map(value).collect();
            Tensor::from_data(TensorData::new(values, shape), &device).require_grad()
        })
    }
}

fn dynamic(initial: f64) -> LossScale {
    let ceiling = DynamicScale::default().ceiling.max(initial);
    LossScale::Dynamic(DynamicScale { initial, ceiling, interval: 20, ..DynamicScale::default() })
}

#[test]
fn a_skipped_step_changes_no_bit() {
    for device in autodiff_devices() {
        let mut trainer = Trainer::new(&device, Policy::F16_MIXED, dynamic(1024.0));
        for _ in 0..3 {
            assert!(trainer.step(Plant::Nothing).expect("finite").is_some());
        }
        let (before, scale) = (trainer.net.bits(), trainer.scaler.scale());
        assert_eq!(trainer.step(Plant::Overflow), Ok(None));
        assert_eq!(trainer.net.bits(), before);
        assert_eq!(trainer.scaler.scale(), scale / 2.0);
        // The same step without the plant does change them.
        assert!(trainer.step(Plant::Nothing).expect("finite").is_some());
        assert_ne!(trainer.net.bits(), before);
    }
}

#[test]
fn a_run_with_skips_ends_in_the_bits_of_a_run_that_never_had_those_steps() {
    // AdamW counts its steps and keeps moments: had a skipped step touched them, the bits differ.
    for device in autodiff_devices() {
        // In f32 a scale that is a power of two rounds nothing.
        let mut planted = Trainer::new(&device, Policy::F32, dynamic(65536.0));
        let mut calm = Trainer::new(&device, Policy::F32, LossScale::None);
        assert_eq!(planted.net.bits(), calm.net.bits());
        for step in 0..30 {
            if [4, 5, 6, 19].contains(&step) {
                assert_eq!(planted.step(Plant::Overflow), Ok(None));
            }
            assert!(planted.step(Plant::Nothing).expect("finite").is_some());
            assert!(calm.step(Plant::Nothing).expect("finite").is_some());
        }
        assert_eq!(planted.net.bits(), calm.net.bits());
    }
}

#[test]
fn a_scale_that_is_far_too_large_falls_until_f16_holds_the_gradients() {
    for device in autodiff_devices() {
        let start = 2.0_f64.powi(30);
        let mut trainer = Trainer::new(&device, Policy::F16_MIXED, dynamic(start));
        let outcomes: Vec<_> =
            (0..80).map(|_| trainer.step(Plant::Nothing).expect("it recovers")).collect();
        let skips = outcomes.iter().filter(|outcome| outcome.is_none()).count();
        assert!(skips > 5, "{skips}");
        assert!(trainer.scaler.scale() < start);
        let losses: Vec<_> = outcomes.into_iter().flatten().collect();
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(last < 0.5 * first, "{first} to {last}");
    }
}

#[test]
fn scaled_f16_follows_the_losses_of_f32() {
    for device in autodiff_devices() {
        let losses = |policy, scale| -> Vec<f64> {
            let mut trainer = Trainer::new(&device, policy, scale);
            (0..10).map(|_| trainer.step(Plant::Nothing).expect("finite").expect("kept")).collect()
        };
        let wide = losses(Policy::F32, LossScale::None);
        let narrow = losses(Policy::F16_MIXED, dynamic(1024.0));
        assert_close(&narrow, &wide, tolerance::F16);
    }
}

#[test]
fn f16_with_planted_overflows_recovers_to_the_loss_of_f32() {
    for device in autodiff_devices() {
        let losses = |policy, scale, plants: &[usize]| -> Vec<f64> {
            let mut trainer = Trainer::new(&device, policy, scale);
            let mut losses = Vec::new();
            while losses.len() < 120 {
                if plants.contains(&losses.len()) {
                    assert_eq!(trainer.step(Plant::Overflow), Ok(None));
                }
                // A scale that has grown too far costs a step of its own.
                losses.extend(trainer.step(Plant::Nothing).expect("it recovers"));
            }
            losses
        };
        let wide = losses(Policy::F32, LossScale::None, &[]);
        let narrow = losses(Policy::F16_MIXED, dynamic(1024.0), &[0, 1, 7, 40, 41, 42, 90]);
        let (first, wide, narrow) = (wide[0], wide[119], narrow[119]);
        assert!(wide < 0.5 * first, "{first} to {wide}");
        assert!((narrow - wide).abs() < 0.1 * wide, "{narrow} against {wide}");
    }
}

#[test]
fn gradients_that_never_fit_are_an_error_that_names_the_first() {
    for device in autodiff_devices() {
        let mut trainer = Trainer::new(&device, Policy::F16_MIXED, dynamic(4.0));
        let error = (0..100).find_map(|_| trainer.step(Plant::Overflow).err());
        let error = error.expect("it does not skip for ever");
        let PrecisionError::TooManySkips { skips, path, scale } = &error else {
            panic!("{error}");
        };
        assert_eq!((*skips, path.as_str(), *scale), (25, "hidden.weight", 1.0));
    }
}

#[test]
fn without_a_dynamic_scale_an_overflow_is_an_error_at_once() {
    for device in autodiff_devices() {
        for scale in [LossScale::None, LossScale::Static { scale: 8.0 }] {
            let mut trainer = Trainer::new(&device, Policy::F32, scale);
            let error = trainer.step(Plant::Overflow).expect_err("nothing is skipped");
            assert!(error.to_string().contains("`hidden.weight`"), "{error}");
        }
    }
}

#[test]
fn the_scale_does_not_show_in_norm_or_gradients() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let layer = LinearConfig::new(3, 4).init(&device);
    let x = Tensor::<2>::random([5, 3], Distribution::Default, &device);
    let unscaled = |scale: LossScale, max_norm| {
        let mut scaler = LossScaler::try_new(scale).expect("valid");
        let loss = layer.forward(x.clone()).powf_scalar(2.0).sum();
        let gradients = GradientsParams::from_grads(scaler.scale_loss(loss).backward(), &layer);
        match scaler.unscale(gradients, &layer, max_norm).expect("finite") {
            Unscaled::Update { gradients, norm } => {
                let weight = gradients.get::<2>(layer.weight.id).expect("a gradient");
                (weight, norm)
            }
            Unscaled::Skip { .. } => panic!("nothing overflows"),
        }
    };
    let (plain, plain_norm) = unscaled(LossScale::None, None);
    let (scaled, norm) = unscaled(LossScale::Static { scale: 3000.0 }, None);
    assert_close(&scaled, &plain, tolerance::F32);
    assert!((norm - plain_norm).abs() / plain_norm < 1e-6, "{norm} against {plain_norm}");
    // Clipping sees the norm without the scale.
    let (clipped, norm) = unscaled(LossScale::Static { scale: 3000.0 }, Some(0.5 * plain_norm));
    assert!((norm - plain_norm).abs() / plain_norm < 1e-6);
    assert_close(&clipped, &plain.mul_scalar(0.5), tolerance::F32);
}

#[test]
fn sums_that_the_caller_read_unscale_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let layer: Linear = LinearConfig::new(3, 4).init(&device);
    let x = Tensor::<2>::random([5, 3], Distribution::Default, &device);
    let gradients = |scaler: &LossScaler, factor: f64| {
        let loss = layer.forward(x.clone()).powf_scalar(2.0).sum().mul_scalar(factor);
        GradientsParams::from_grads(scaler.scale_loss(loss).backward(), &layer)
    };
    // The bits of gradients and norm, or the scale after a skip.
    let bits = |unscaled: Result<Unscaled, PrecisionError>| match unscaled {
        Ok(Unscaled::Update { gradients, norm }) => {
            let weight = gradients.get::<2>(layer.weight.id).expect("a gradient").into_data();
            let bits = weight.iter::<f32>().map(|x| u64::from(x.to_bits())).collect::<Vec<_>>();
            Ok((bits, norm.to_bits()))
        }
        Ok(Unscaled::Skip { .. }) => Err("a skip".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    for scale in [LossScale::None, LossScale::Static { scale: 3000.0 }, dynamic(1024.0)] {
        for (max_norm, factor) in [(None, 1.0), (Some(0.1), 1.0), (Some(0.1), f64::INFINITY)] {
            let scaler = || LossScaler::try_new(scale).expect("valid");
            let (mut one, mut two) = (scaler(), scaler());
            let whole = one.unscale(gradients(&one, factor), &layer, max_norm);
            let given = gradients(&two, factor);
            let sums = square_sums(&given, &layer).expect("two gradients");
            assert_eq!(sums.dims(), [2]);
            let sums: Vec<f64> = sums.into_data().iter().collect();
            let measured = two.unscale_measured(given, &layer, max_norm, &sums);
            assert_eq!(bits(measured), bits(whole), "{scale:?}, {max_norm:?}, {factor}");
            assert_eq!(one.state(), two.state());
        }
    }
    assert!(square_sums(&GradientsParams::new(), &layer).is_none());
}

#[test]
fn an_attempt_has_its_own_statistics_and_the_same_parameters() {
    for device in autodiff_devices() {
        let trainer = Trainer::new(&device, Policy::F32, LossScale::None);
        let before = trainer.net.bits();
        let trial = attempt(&trainer.net);
        let _ = trial.forward(trainer.inputs.clone());
        assert_eq!(trainer.net.bits(), before);
        assert_ne!(trial.bits(), before);
        assert_eq!(trial.hidden.weight.id, trainer.net.hidden.weight.id);
    }
}
