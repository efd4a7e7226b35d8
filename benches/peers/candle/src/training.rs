//! A training step of the dual-pathway network, and its optimizer alone.

use burn::backend::{Autodiff, Candle};
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{AdamW, AdamWConfig, GradientsParams, Optimizer};
use burn::tensor::{Int, Tensor, TensorData};

use crate::network::{DualPathway, Path, Shape};
use crate::worker::Compute;
use crate::{formula, load};

type Training = Autodiff<Candle>;

const LEARNING_RATE: f64 = 1e-3;
/// The steps of a proof, as in `benches/src/problem/train_step.rs` and `optimizer.rs`.
const PROVED_TRAINING: usize = 4;
const PROVED_UPDATES: usize = 3;

fn adamw() -> OptimizerAdaptor<AdamW, DualPathway<Training>, Training> {
    AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.01).init()
}

/// Forward, cross-entropy, backward and the update; the loss and the hits are read back.
pub(crate) fn step(shape: Shape, batch: usize) -> Compute {
    let device = Default::default();
    let mut kept = Some(shape.by_formula::<Training>());
    let mut optimizer = adamw();
    let dims = [batch, 3, shape.side, shape.side];
    let images = load::<Training, 4>(formula::tensor("images", dims.iter().product(), 1.7), dims);
    let labels = (0..batch).map(|index| (index * 7 % shape.classes) as i64).collect();
    let labels =
        Tensor::<Training, 1, Int>::from_data(TensorData::new::<i64, _>(labels, [batch]), &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let mut step = move || {
        let model = kept.take().expect("a step gives the model back");
        let logits = model.forward(images.clone());
        let loss = cross_entropy.forward(logits.clone(), labels.clone());
        let read = f64::from(loss.clone().into_scalar());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        kept = Some(optimizer.step(LEARNING_RATE, model, gradients));
        let hits = logits.argmax(1).squeeze_dim::<1>(1).equal(labels.clone());
        std::hint::black_box(hits.int().sum().into_scalar());
        read
    };
    Box::new(move |read| {
        let losses = (0..if read { PROVED_TRAINING } else { 1 }).map(|_| step()).collect();
        vec![("losses".into(), losses)]
    })
}

/// Updates with fixed gradients.
pub(crate) fn optimizer(shape: Shape) -> Compute {
    let mut kept = Some(shape.by_formula::<Training>());
    let mut optimizer = adamw();
    let mut fill = Fill { path: Path::default(), gradients: GradientsParams::new() };
    kept.as_ref().expect("just made").visit(&mut fill);
    let fixed = fill.gradients;
    Box::new(move |read| {
        for _ in 0..if read { PROVED_UPDATES } else { 1 } {
            let model = kept.take().expect("an update gives the model back");
            // The optimizer consumes its arguments; the copies share their memory.
            let mut share = Share { from: &fixed, to: GradientsParams::new() };
            model.visit(&mut share);
            kept = Some(optimizer.step(LEARNING_RATE, model, share.to));
        }
        if !read {
            return Vec::new();
        }
        kept.as_ref().expect("an update gives the model back").trained()
    })
}

/// Sets the gradient of every learned parameter by formula.
struct Fill {
    path: Path,
    gradients: GradientsParams,
}

impl ModuleVisitor<Training> for Fill {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Training, D>>) {
        if self.path.is_trained() {
            let dims = param.dims();
            let name = format!("gradient of {}", self.path.joined());
            let values = formula::tensor(&name, dims.iter().product(), 0.1);
            self.gradients.register(param.id, load::<Candle, D>(values, dims));
        }
    }
}

struct Share<'a> {
    from: &'a GradientsParams,
    to: GradientsParams,
}

impl ModuleVisitor<Training> for Share<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Training, D>>) {
        if let Some(gradient) = self.from.get::<Candle, D>(param.id) {
            self.to.register(param.id, gradient);
        }
    }
}
