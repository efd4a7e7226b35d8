//! The faster arithmetic for each layer on one class of processors.
//!
//! int8 is not always faster than f32: without instructions for products of bytes a 3×3 convolution
//! by Winograd's algorithm in f32 needs fewer instructions than in int8. A [`SpeedTable`] has the
//! time of each layer in both, measured or estimated, and of the conversions between them; a
//! [`SpeedPlan`] is the assignment with the least sum. Layers that it runs in f32 multiply the
//! numbers that their integer weights stand for, so that a file has every weight once, in int8.

mod cut;
mod estimate;
mod measure;

use std::fmt;

use serde::{Deserialize, Serialize};
use updraft_simd::Isa;

use self::cut::{Costs, fastest};
use super::model::QuantizedModel;

/// The layers of a model that run in f32 on one class of processors because they are faster there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedPlan {
    /// The class: the name of the instruction set for products of bytes, [`Isa::dot`].
    pub(super) processor: String,
    /// The layers, counted from 0, in ascending order.
    pub(super) in_f32: Vec<usize>,
}

/// The times of a model's layers in int8 and in f32, for one or more batch sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpeedTable {
    /// The class of processors: the name of the instruction set for products of bytes.
    pub processor: String,
    /// Whether the times were measured on this processor, or estimated from shapes.
    pub is_measured: bool,
    /// The batch sizes.
    pub batches: Vec<usize>,
    /// The layers in the order in which they run.
    pub layers: Vec<LayerSpeed>,
    /// The whole model, measured: with all layers in int8, with all that can be in f32, and by the
    /// plan; in milliseconds for each batch. Empty if the times are estimated.
    pub whole_ms: Vec<[f64; 3]>,
    plan: SpeedPlan,
}

/// A layer of a [`SpeedTable`]; times are in milliseconds, one for each batch size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerSpeed {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// Multiplications, each with its addition, for one sample.
    pub multiply_adds: usize,
    /// In int8; none for a layer without an int8 form.
    pub int8_ms: Option<Vec<f64>>,
    /// In f32; none for a layer that has no f32 form of the same weights.
    pub f32_ms: Option<Vec<f64>>,
    /// The conversion of its output to codes.
    pub to_codes_ms: Vec<f64>,
    /// The conversion of its output to numbers.
    pub to_numbers_ms: Vec<f64>,
    /// Whether the plan runs it in f32.
    pub is_in_f32: bool,
}

impl SpeedPlan {
    /// The name of the instruction set for products of bytes that it is for.
    #[must_use]
    pub fn processor(&self) -> &str {
        &self.processor
    }

    /// Whether it is in order, and names layers that a model of so many has.
    pub(super) fn fits(&self, layers: usize) -> bool {
        self.in_f32.is_sorted_by(|a, b| a < b) && self.in_f32.iter().all(|&layer| layer < layers)
    }

    /// Whether no layer runs in f32 because of it.
    #[must_use]
    pub fn is_int8(&self) -> bool {
        self.in_f32.is_empty()
    }
}

impl SpeedTable {
    /// The plan with the least time over all batch sizes, each relative to that of all layers in
    /// int8.
    #[must_use]
    pub const fn plan(&self) -> &SpeedPlan {
        &self.plan
    }

    /// The share of all multiply-adds that run in int8 by the plan.
    #[must_use]
    pub fn int8_share(&self) -> f64 {
        let all: usize = self.layers.iter().map(|layer| layer.multiply_adds).sum();
        let is_int8 = |layer: &&LayerSpeed| !layer.is_in_f32 && layer.int8_ms.is_some();
        let of_int8: usize =
            self.layers.iter().filter(is_int8).map(|layer| layer.multiply_adds).sum();
        if all == 0 { 1.0 } else { of_int8 as f64 / all as f64 }
    }

    /// A table whose plan is the fastest by its times.
    fn new(model: &QuantizedModel, isa: Isa, batches: &[usize], layers: Vec<LayerSpeed>) -> Self {
        let mut table = Self {
            processor: isa.dot().name().to_owned(),
            is_measured: false,
            batches: batches.to_vec(),
            layers,
            whole_ms: Vec::new(),
            plan: SpeedPlan { processor: isa.dot().name().to_owned(), in_f32: Vec::new() },
        };
        let is_float = fastest(&table.costs(model));
        table.set_plan(model, &is_float[model.inputs.len()..]);
        table
    }

    fn set_plan(&mut self, model: &QuantizedModel, is_float: &[bool]) {
        for (layer, &is_float) in self.layers.iter_mut().zip(is_float) {
            layer.is_in_f32 = is_float || layer.int8_ms.is_none();
        }
        let is_switched = |&index: &usize| is_float[index] && model.layers[index].is_switchable();
        self.plan.in_f32 = (0..is_float.len()).filter(is_switched).collect();
    }

    /// The costs of all tensors: of the inputs, then of the layers.
    fn costs(&self, model: &QuantizedModel) -> Vec<Costs> {
        // Batches weigh alike, however long they take.
        let wholes: Vec<f64> = (0..self.batches.len())
            .map(|batch| {
                let of_layer = |layer: &LayerSpeed| {
                    layer.int8_ms.as_ref().or(layer.f32_ms.as_ref()).map_or(0.0, |ms| ms[batch])
                };
                self.layers.iter().map(of_layer).sum::<f64>().max(f64::MIN_POSITIVE)
            })
            .collect();
        let weighed = |times: &Vec<f64>| times.iter().zip(&wholes).map(|(ms, all)| ms / all).sum();
        let inputs = model.inputs.len();
        let readers = |tensor: usize| {
            let reads_numbers = |index: &usize| {
                let layer = &model.layers[*index];
                // The mean of an image is summed over codes in either arithmetic.
                layer.inputs.contains(&tensor) && !layer.operation.is_mean_of_image(&layer.shapes)
            };
            let readers = (0..model.layers.len()).filter(reads_numbers);
            readers.map(|index| inputs + index).collect()
        };
        let of_inputs = (0..inputs).map(|tensor| Costs {
            int8: Some(0.0),
            f32: None,
            to_codes: 0.0,
            to_real: 0.0,
            readers: readers(tensor),
            is_output: false,
        });
        let of_layers = self.layers.iter().enumerate().map(|(index, layer)| {
            let tensor = inputs + index;
            let is_output = model.outputs.iter().any(|output| output.tensor == tensor);
            // Sums of products are returned in f32 directly.
            let is_direct = model.layers[index].is_product();
            Costs {
                int8: layer.int8_ms.as_ref().map(weighed),
                f32: layer.f32_ms.as_ref().map(weighed),
                to_codes: weighed(&layer.to_codes_ms),
                to_real: weighed(&layer.to_numbers_ms),
                readers: readers(tensor),
                is_output: is_output && !is_direct,
            }
        });
        of_inputs.chain(of_layers).collect()
    }
}

impl QuantizedModel {
    /// The plan that [`for_processor`](Self::for_processor) applies on an instruction set: the one
    /// that was stored for it, or one by the shapes of the layers.
    #[must_use]
    pub fn speed_plan(&self, isa: Isa) -> SpeedPlan {
        let stored = self.speed_plans.iter().find(|plan| plan.processor == isa.dot().name());
        stored.cloned().unwrap_or_else(|| self.estimate_speed(isa).plan)
    }

    /// Stores a plan, in place of another one for the same class of processors. It is part of the
    /// model's file and does not change the model until [`for_processor`](Self::for_processor).
    #[must_use]
    pub fn with_speed_plan(mut self, plan: &SpeedPlan) -> Self {
        self.speed_plans.retain(|other| other.processor != plan.processor);
        self.speed_plans.push(plan.clone());
        self.speed_plans.sort_by(|a, b| a.processor.cmp(&b.processor));
        self
    }

    /// The same model with the arithmetic of each layer that is faster on an instruction set, by
    /// [`speed_plan`](Self::speed_plan): layers with int8 weights may run in f32, with the numbers
    /// that their weights stand for. A file of the result is that of this model.
    ///
    /// The same plan gives the same bits on one instruction set; two plans round differently.
    #[must_use]
    pub fn for_processor(&self, isa: Isa) -> Self {
        let SpeedPlan { in_f32, .. } = self.speed_plan(isa);
        self.switched(|index| in_f32.binary_search(&index).is_ok())
    }

    /// Stores, for every class of processors, that all layers stay in int8: with the same bits on
    /// each of them as far as all layers have an int8 form.
    #[must_use]
    pub fn only_int8(mut self) -> Self {
        let of_class =
            |isa: Isa| SpeedPlan { processor: isa.name().to_owned(), in_f32: Vec::new() };
        self.speed_plans = Isa::DOTS.map(of_class).to_vec();
        self.speed_plans.sort_by(|a, b| a.processor.cmp(&b.processor));
        self
    }

    /// The same model with every layer in int8 that has an int8 form.
    #[must_use]
    pub fn in_int8(&self) -> Self {
        self.switched(|_| false)
    }

    fn switched(&self, is_float: impl Fn(usize) -> bool) -> Self {
        let mut switched = self.clone();
        for (index, layer) in switched.layers.iter_mut().enumerate() {
            layer.form = layer.form.switched(is_float(index));
        }
        switched
    }
}

/// A line for each layer, at most eighty columns wide, and the whole model.
impl fmt::Display for SpeedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_measured { "measured" } else { "estimated" };
        let columns: String =
            self.batches.iter().map(|b| format!("{:>17}", format!("batch {b}"))).collect();
        writeln!(f, "{:30}{:>8}{columns}", format!("{how}, {}", self.processor), "runs in")?;
        let both = self.batches.iter().map(|_| format!("{:>9}{:>8}", "int8", "f32"));
        writeln!(f, "{:38}{}", "milliseconds", both.collect::<String>())?;
        for layer in &self.layers {
            let number = |times: &Option<Vec<f64>>, batch: usize| {
                times.as_ref().map_or("-".to_owned(), |times| format!("{:.3}", times[batch]))
            };
            let times = (0..self.batches.len()).map(|batch| {
                format!("{:>9}{:>8}", number(&layer.int8_ms, batch), number(&layer.f32_ms, batch))
            });
            let arithmetic = if layer.is_in_f32 { "f32" } else { "int8" };
            let name = shortened(&layer.name);
            writeln!(f, "{name:30}{arithmetic:>8}{}", times.collect::<String>())?;
        }
        for (batch, [int8, float, planned]) in self.batches.iter().zip(&self.whole_ms) {
            writeln!(
                f,
                "batch {batch}: {int8:.3} ms in int8, {float:.3} in f32, {planned:.3} by the plan"
            )?;
        }
        writeln!(f, "{:.1} % of the multiply-adds in int8", 100.0 * self.int8_share())
    }
}

/// The end of a long name.
fn shortened(name: &str) -> String {
    const MOST: usize = 29;
    match name.chars().count().checked_sub(MOST) {
        None | Some(0) => name.to_owned(),
        Some(more) => format!("…{}", name.chars().skip(more + 1).collect::<String>()),
    }
}
