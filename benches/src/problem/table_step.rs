//! One training step of a network for tables, on rows in memory.

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_models::{
    Head, InteractionConfig, InteractionNet, RowFeatures, TableNet, TableNetConfig,
};
use updraft_trainer::{Losses, StepContext, StepSettings, StreamError, binary_cross_entropy};
use updraft_transformer::cross_entropy;

use crate::formula;
use crate::network::ByFormula;
use crate::problem::repeated::{Steps, ToF64, reference_losses};
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work};

/// The steps that a proof makes: the last losses depend on every gradient before.
const PROVED_STEPS: usize = 4;

/// The layers between the embeddings and the heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layers {
    /// A perceptron on embeddings of categories and periodic embeddings of numbers.
    Perceptron,
    /// Attention and a perceptron, in parallel with a factorization machine.
    Interaction,
}

/// A step of a network for tables with `AdamW`, f32, on rows by formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableStep {
    pub(crate) layers: Layers,
    pub(crate) class_counts: Vec<usize>,
    pub(crate) numbers: usize,
    /// The size of embeddings, at most.
    pub(crate) embedding: usize,
    /// The widths of the hidden layers.
    pub(crate) hidden: Vec<usize>,
    /// Outputs of a target with any number of labels; 0 without it.
    pub(crate) labels: usize,
    /// The number of classes of each other target.
    pub(crate) classes: Vec<usize>,
    pub(crate) dropout: f64,
    pub(crate) batch: usize,
}

/// The network of `configs/adult.toml`.
pub(crate) fn adult() -> TableStep {
    TableStep {
        layers: Layers::Perceptron,
        class_counts: vec![10, 17, 8, 16, 7, 6, 3, 43],
        numbers: 6,
        embedding: 16,
        hidden: vec![128, 128],
        labels: 0,
        classes: vec![2],
        dropout: 0.1,
        batch: 256,
    }
}

/// The network of `configs/tables-large.toml`.
pub(crate) fn published() -> TableStep {
    TableStep {
        layers: Layers::Interaction,
        class_counts: vec![1000, 3000, 1500, 500],
        numbers: 0,
        embedding: 384,
        hidden: vec![1280; 4],
        labels: 6,
        classes: vec![4, 30],
        dropout: 0.391,
        batch: 64,
    }
}

/// Frequencies of each number's periodic embedding.
const FREQUENCIES: usize = 16;

impl TableStep {
    fn features(&self) -> RowFeatures {
        RowFeatures { class_counts: self.class_counts.clone(), numbers: self.numbers }
    }

    fn heads(&self) -> Vec<Head> {
        let labels = (self.labels > 0).then_some(Head::Labels(self.labels));
        labels.into_iter().chain(self.classes.iter().map(|&count| Head::Classes(count))).collect()
    }

    fn perceptron(&self) -> TableNetConfig {
        TableNetConfig::new(self.features(), self.heads())
            .with_embedding(self.embedding)
            .with_frequencies(FREQUENCIES)
            .with_hidden(self.hidden.clone())
            .with_dropout(self.dropout)
    }

    fn interaction(&self) -> InteractionConfig {
        InteractionConfig::new(self.features(), self.heads())
            .with_embedding(self.embedding)
            .with_layers(self.hidden.len())
            .with_hidden(self.hidden[0])
            .with_dropout(self.dropout)
    }

    /// Categories `[batch, columns]`.
    fn categories(&self, device: &Device) -> Tensor<2, Int> {
        let columns = self.class_counts.len();
        let of_row = |row: usize| {
            let counts = self.class_counts.iter().enumerate();
            counts.map(move |(column, count)| ((row * 7 + column * 3) % count) as i64)
        };
        let values = (0..self.batch).flat_map(of_row).collect();
        Tensor::from_data(TensorData::new::<i64, _>(values, [self.batch, columns]), device)
    }

    fn numbers(&self, device: &Device, dtype: DType) -> Tensor<2> {
        let shape = [self.batch, self.numbers];
        let values = formula::tensor("numbers", shape.iter().product(), 1.7);
        let data = TensorData::new(values, shape).convert_dtype(dtype);
        Tensor::from_data(data, (device, dtype))
    }

    fn truths(&self, device: &Device, dtype: DType) -> Truths {
        let shape = [self.batch, self.labels];
        let labels = formula::tensor("labels", shape.iter().product(), 1.0);
        let labels = labels.into_iter().map(|x| f32::from(u8::from(x > 0.0))).collect();
        let data = TensorData::new::<f32, _>(labels, shape).convert_dtype(dtype);
        let labels = (self.labels > 0).then(|| Tensor::from_data(data, (device, dtype)));
        let of_target = |&count: &usize| {
            let classes = (0..self.batch).map(|row| (row * 5 % count) as i64).collect();
            Tensor::from_data(TensorData::new::<i64, _>(classes, [self.batch]), device)
        };
        (labels, self.classes.iter().map(of_target).collect())
    }
}

/// What a batch's outputs should be: of a target with labels, and of each one with classes.
type Truths = (Option<Tensor<2>>, Vec<Tensor<1, Int>>);

/// The sum of the losses of all targets.
fn loss(outputs: &[Tensor<2>], (labels, classes): &Truths) -> Tensor<1> {
    let (of_labels, of_classes) = outputs.split_at(usize::from(labels.is_some()));
    let of_labels = of_labels.iter().zip(labels);
    let of_labels = of_labels.map(|(own, truth)| binary_cross_entropy(own.clone(), truth.clone()));
    let of_classes = of_classes.iter().zip(classes);
    let of_classes = of_classes.map(|(own, truth)| cross_entropy(own.clone(), truth.clone(), 0.0));
    of_labels.chain(of_classes).reduce(|sum, loss| sum + loss).expect("a target")
}

/// A network for tables.
trait Rows: Module + 'static {
    fn outputs(&self, categories: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>>;
}

impl Rows for TableNet {
    fn outputs(&self, categories: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>> {
        self.forward(categories, numbers)
    }
}

impl Rows for InteractionNet {
    fn outputs(&self, categories: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>> {
        self.forward(categories, numbers)
    }
}

impl Task for TableStep {
    fn id(&self) -> String {
        let layers = match self.layers {
            Layers::Perceptron => "perceptron",
            Layers::Interaction => "interaction",
        };
        format!("table/training-{layers}-b{}", self.batch)
    }

    /// Without dropout, whose random numbers differ between programs.
    fn small(&self) -> Problem {
        let hidden = match self.layers {
            Layers::Perceptron => vec![9, 7],
            Layers::Interaction => vec![12; 2],
        };
        Problem::TableStep(Self {
            class_counts: vec![5, 3, 8],
            embedding: 8,
            hidden,
            dropout: 0.0,
            batch: 12,
            ..self.clone()
        })
    }

    fn work(&self) -> Work {
        let products = match self.layers {
            Layers::Perceptron => self.perceptron().multiply_adds(),
            Layers::Interaction => self.interaction().multiply_adds(),
        };
        let rows = self.batch as u64;
        Work { operations: Some(6 * rows * products), bytes: None, samples: Some(rows) }
    }

    /// The same network in f64 on flex, where burn's own operations compute it.
    fn reference(&self) -> Result<Outputs> {
        let device = Device::flex().autodiff();
        Ok(match self.layers {
            Layers::Perceptron => self.losses(self.perceptron().init(&device), &device),
            Layers::Interaction => self.losses(self.interaction().init(&device), &device),
        })
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    fn reports_memory(&self) -> bool {
        true
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = site.device.clone().autodiff();
        Ok(match self.layers {
            Layers::Perceptron => self.steps(self.perceptron().init(&device), device),
            Layers::Interaction => self.steps(self.interaction().init(&device), device),
        })
    }
}

impl TableStep {
    fn losses<N: Rows>(&self, network: N, device: &Device) -> Outputs {
        let network = network.map(&mut ByFormula::default()).map(&mut ToF64);
        let (categories, truths) = (self.categories(device), self.truths(device, DType::F64));
        let numbers = self.numbers(device, DType::F64);
        reference_losses(network, PROVED_STEPS, |network| {
            loss(&network.outputs(categories.clone(), numbers.clone()), &truths)
        })
    }

    fn steps<N: Rows>(&self, network: N, device: Device) -> Box<dyn Repeat> {
        let network = network.map(&mut ByFormula::default());
        let input = (self.categories(&device), self.numbers(&device, DType::F32));
        let batch = (input, self.truths(&device, DType::F32));
        let (task, settings) = (Learn(self.clone()), StepSettings::default());
        Box::new(Steps::new(task, network, batch, settings, device, PROVED_STEPS))
    }
}

/// The losses of rows in memory.
struct Learn(TableStep);

impl<N: Rows> updraft_trainer::Task<N> for Learn {
    /// The tensors themselves: they are on the device once and for all.
    type Batch = (Self::Input, Truths);
    type Input = (Tensor<2, Int>, Tensor<2>);
    type Target = Truths;
    type Output = Vec<Tensor<2>>;
    type Score = ();

    fn place(
        &self,
        batch: (Self::Input, Truths),
        _: &Device,
    ) -> Result<(Self::Input, Truths), StreamError> {
        Ok(batch)
    }

    fn forward(&self, network: &N, input: Self::Input, _: &StepContext) -> Vec<Tensor<2>> {
        network.outputs(input.0, input.1)
    }

    fn loss(&self, outputs: &Vec<Tensor<2>>, truths: &Truths) -> Losses {
        loss(outputs, truths).into()
    }

    fn samples(&self, (_, classes): &Truths) -> usize {
        classes.first().map_or(0, |classes| classes.dims()[0])
    }

    fn example(&self, batch: usize, device: &Device) -> (Self::Input, Truths) {
        let step = TableStep { batch, ..self.0.clone() };
        let input = (step.categories(device), step.numbers(device, DType::F32));
        (input, step.truths(device, DType::F32))
    }
}
