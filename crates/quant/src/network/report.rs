//! What eight bits cost: each layer beside the same in f32.

use updraft_simd::Isa;

use super::float::FloatRun;
use super::fuse::steps;
use super::graph::Graph;
use super::model::{Numbers, QuantizedModel, Workspace};
use super::plan::Arithmetic;

/// A layer beside the same in f32, with all errors of the layers before it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerComparison {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// Signal to quantization noise: `10·log₁₀(Σ f32² / Σ (f32 − int8)²)`, in decibels;
    /// infinite without noise.
    pub sqnr_db: f64,
    /// What the layer computes in.
    pub arithmetic: Arithmetic,
    /// Multiplications, each with its addition, for one image.
    pub multiply_adds: usize,
    /// Bytes of the packed weights.
    pub weight_bytes: usize,
}

/// A model beside its graph in f32, over some images.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Images compared.
    pub images: usize,
    /// The layers in the order in which they run; the last is the answer.
    pub layers: Vec<LayerComparison>,
    /// The share of images whose greatest answer is the same.
    pub agreement: f64,
}

impl Comparison {
    /// Runs both over batches of images `[n, channels, height, width]`.
    ///
    /// # Panics
    /// If the model is not of this graph, or a batch holds no whole number of images.
    #[must_use]
    pub fn new<B: AsRef<[f32]>>(
        graph: &Graph,
        model: &QuantizedModel,
        batches: impl IntoIterator<Item = B>,
        isa: Isa,
    ) -> Self {
        Self::visited(graph, model, batches, isa, |_, _| {})
    }

    /// The same, and shows the answers of each image, in f32 and in eight bits.
    pub(super) fn visited<B: AsRef<[f32]>>(
        graph: &Graph,
        model: &QuantizedModel,
        batches: impl IntoIterator<Item = B>,
        isa: Isa,
        mut visit: impl FnMut(&[f32], &[f32]),
    ) -> Self {
        let steps = steps(graph, model.joins_sums);
        let shapes = std::iter::once(graph.shape(graph.input()));
        let shapes: Vec<_> = shapes.chain(steps.iter().map(|step| step.shape)).collect();
        assert_eq!(shapes, model.shapes, "the model is of another graph");
        let lens: Vec<usize> = shapes.iter().map(|shape| shape.iter().product()).collect();
        let mut float = FloatRun::new(shapes[0], &steps);
        let mut workspace = Workspace::new();
        let mut real = vec![0.0; lens.iter().copied().max().unwrap_or(0)];
        let mut answer = vec![0.0; lens[lens.len() - 1]];
        let mut ratios = vec![Ratio::default(); steps.len()];
        let (mut images, mut agreeing) = (0, 0_usize);
        for batch in batches {
            let batch = batch.as_ref();
            assert!(batch.len().is_multiple_of(lens[0]), "whole images");
            for image in batch.chunks_exact(lens[0]) {
                float.run(&steps, image);
                model.run_visited(isa, image, &mut answer, &mut workspace, 1, |tensor, numbers| {
                    if tensor == 0 || tensor == steps.len() {
                        return;
                    }
                    let given = match numbers {
                        Numbers::Real(given) => given,
                        Numbers::Codes(codes) => {
                            let real = &mut real[..lens[tensor]];
                            model.real(isa, tensor, codes, real);
                            real
                        }
                    };
                    ratios[tensor - 1].add(&float.tensors[tensor], given);
                });
                let right = &float.tensors[steps.len()];
                ratios[steps.len() - 1].add(right, &answer);
                images += 1;
                agreeing += usize::from(greatest(right) == greatest(&answer));
                visit(right, &answer);
            }
        }
        let layers = model.layers.iter().zip(ratios).map(|(layer, ratio)| LayerComparison {
            name: layer.name.clone(),
            sqnr_db: ratio.decibels(),
            arithmetic: layer.arithmetic(),
            multiply_adds: layer.multiply_adds,
            weight_bytes: layer.weight_bytes(),
        });
        let agreement = agreeing as f64 / images.max(1) as f64;
        Self { images, layers: layers.collect(), agreement }
    }
}

/// Energy of a signal, and of its noise.
#[derive(Debug, Clone, Copy, Default)]
struct Ratio {
    signal: f64,
    noise: f64,
}

impl Ratio {
    fn add(&mut self, right: &[f32], given: &[f32]) {
        for (&right, &given) in right.iter().zip(given) {
            self.signal += f64::from(right).powi(2);
            self.noise += (f64::from(right) - f64::from(given)).powi(2);
        }
    }

    fn decibels(self) -> f64 {
        if self.noise == 0.0 {
            // Of no signal either, where all is zero.
            return f64::INFINITY;
        }
        10.0 * (self.signal / self.noise).log10()
    }
}

/// The place of the first of the greatest numbers.
pub(super) fn greatest(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}
