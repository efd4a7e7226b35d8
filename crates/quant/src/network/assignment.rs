//! The choice of formats from the measured effect of each layer.

use serde::Serialize;

use super::fuse::{Step, Steps};
use super::graph::Graph;
use super::knapsack::{Cost, Knapsack};
use super::quantization::Quantization;
use super::sensitivity::Sensitivity;
use crate::weights::WeightFormat;

/// A choice of formats: within a number of bytes, the one with the least sum of the layers' noise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Assignment {
    /// The format of each layer with weights; none for a layer in f32.
    pub layers: Vec<(String, Option<WeightFormat>)>,
    /// Bytes of all parameters in a file.
    pub bytes: usize,
    /// The same as a fraction of those in f32.
    pub fraction: f64,
    /// The sum of the layers' noise, as a fraction of the outputs' energy.
    pub noise: f64,
}

/// Errors of choosing formats.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// No assignment is small enough.
    #[error(
        "no choice of bits has {budget} of the bytes of f32; the smallest has {}, which is the \
         nearest possible budget",
        // Rounded up, so that it is possible.
        (10_000.0 * least).ceil() / 10_000.0
    )]
    TooSmall {
        /// The fraction that was asked for.
        budget: f64,
        /// The fraction of the smallest assignment.
        least: f64,
    },
}

impl Quantization {
    /// Checks that [`try_within`](Sensitivity::try_within) can find a choice of some formats and f32
    /// for the layers of a graph that is small enough.
    ///
    /// # Errors
    /// [`BudgetError::TooSmall`] with the smallest possible fraction.
    pub fn check_budget(
        &self,
        graph: &Graph,
        formats: &[WeightFormat],
        budget: f64,
    ) -> Result<(), BudgetError> {
        let steps = Steps::new(graph, self.joins_sums());
        let least = |step: &Step| {
            let parameters = &step.work.parameters;
            let (channels, in_f32) = (parameters.bias.len(), parameters.bytes());
            if !step.has_weights() || self.is_kept(step) {
                return in_f32;
            }
            let each = parameters.weights.len() / channels;
            let of_formats = formats.iter().map(|format| format.bytes(channels, each));
            of_formats.fold(in_f32, usize::min)
        };
        let all: usize = steps.list.iter().map(|step| step.work.parameters.bytes()).sum();
        let least = steps.list.iter().map(least).sum::<usize>();
        let bytes = (budget * all as f64).max(0.0) as usize;
        if least <= bytes {
            return Ok(());
        }
        Err(BudgetError::TooSmall { budget, least: least as f64 / all as f64 })
    }
}

impl Assignment {
    /// The settings of a quantization with these formats.
    #[must_use]
    pub fn apply(&self, by: Quantization) -> Quantization {
        self.layers.iter().fold(by, |by, (name, format)| match format {
            Some(format) => by.layer(name, *format),
            None => by.keep([name]),
        })
    }
}

impl Sensitivity {
    fn knapsack(&self) -> Knapsack {
        let costs = self.layers.iter().map(|layer| {
            let choices = layer.choices.iter();
            let choices = choices.map(|choice| Cost { bytes: choice.bytes, noise: choice.noise });
            choices.chain([Cost { bytes: layer.bytes_f32, noise: 0.0 }]).collect()
        });
        Knapsack::new(costs.collect())
    }

    /// Bytes of parameters in f32 that are not measured.
    fn fixed(&self) -> usize {
        let measured: usize = self.layers.iter().map(|layer| layer.bytes_f32).sum();
        self.bytes_f32 - measured
    }

    fn assignment(&self, knapsack: &Knapsack, choice: &[usize]) -> Assignment {
        let layers = self.layers.iter().zip(choice).map(|(layer, &choice)| {
            (layer.name.clone(), layer.choices.get(choice).map(|choice| choice.format))
        });
        let bytes = self.fixed() + knapsack.bytes(choice);
        let fraction = bytes as f64 / self.bytes_f32 as f64;
        Assignment { layers: layers.collect(), bytes, fraction, noise: knapsack.noise(choice) }
    }

    /// The assignment with the least noise whose parameters have at most a fraction of the bytes of
    /// f32: an exact solution up to steps of 1/65,536 of the bytes, for noise that adds up.
    ///
    /// # Errors
    /// [`BudgetError::TooSmall`] with the smallest possible fraction.
    pub fn try_within(&self, budget: f64) -> Result<Assignment, BudgetError> {
        let knapsack = self.knapsack();
        let bytes = (budget * self.bytes_f32 as f64).max(0.0) as usize;
        let choice = bytes.checked_sub(self.fixed()).and_then(|bytes| knapsack.within(bytes));
        match choice {
            Some(choice) => Ok(self.assignment(&knapsack, &choice)),
            None => {
                let least = self.fixed() + knapsack.least();
                Err(BudgetError::TooSmall { budget, least: least as f64 / self.bytes_f32 as f64 })
            }
        }
    }

    /// Assignments from the smallest to the one with the least noise, at most `most`: the front of
    /// size against noise.
    #[must_use]
    pub fn front(&self, most: usize) -> Vec<Assignment> {
        let knapsack = self.knapsack();
        let choices = knapsack.front(most);
        choices.iter().map(|choice| self.assignment(&knapsack, choice)).collect()
    }
}
