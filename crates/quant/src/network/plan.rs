//! The plan of a model: the layers in int8 and in f32, with reasons.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::QuantizedModel;
use crate::weights::WeightFormat;

/// The arithmetic of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Arithmetic {
    /// int8, with sums in 32 bits.
    Int8,
    /// f32, for a reason.
    F32(Reason),
}

/// Why a layer runs in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// There is no int8 kernel.
    NoInt8Form,
    /// burn computes it: there is no kernel of this crate.
    InBurn,
    /// Its sums could exceed 32 bits.
    Overflow {
        /// The output channel.
        channel: usize,
        /// The sum of largest magnitude that inputs may lead to.
        sum: i64,
    },
    /// The caller requested it.
    Kept,
    /// It belongs to the end of the network, after means over whole images, and is little work.
    Tail,
    /// It takes less time in f32 on this processor, with the numbers that its integers stand for.
    Faster,
    /// Only its weights, if it has any, were to be quantized.
    WeightsOnly,
}

/// One layer of a plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlannedLayer {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// Its arithmetic.
    pub arithmetic: Arithmetic,
    /// The format of its integer weights, if it has any.
    pub weights: Option<WeightFormat>,
    /// Multiplications, each with its addition, for one sample.
    pub multiply_adds: usize,
    /// Whether its output was zero for every calibration sample, or is cut to zero by the function that
    /// reads it.
    pub is_zero: bool,
}

/// The arithmetic of each layer of a model, in the order in which they run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The layers.
    pub layers: Vec<PlannedLayer>,
}

impl Plan {
    /// The share of all multiply-adds that run in int8; 1 if there are none.
    #[must_use]
    pub fn int8_share(&self) -> f64 {
        let sum = |layers: &mut dyn Iterator<Item = &PlannedLayer>| -> usize {
            layers.map(|layer| layer.multiply_adds).sum()
        };
        let all = sum(&mut self.layers.iter());
        let of_int8 =
            sum(&mut self.layers.iter().filter(|layer| layer.arithmetic == Arithmetic::Int8));
        if all == 0 { 1.0 } else { of_int8 as f64 / all as f64 }
    }

    /// Whether every layer runs in int8.
    #[must_use]
    pub fn is_int8(&self) -> bool {
        self.layers.iter().all(|layer| layer.arithmetic == Arithmetic::Int8)
    }
}

impl QuantizedModel {
    /// The arithmetic of each layer.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let layer = |layer: &super::layer::QuantizedLayer| PlannedLayer {
            name: layer.name.clone(),
            arithmetic: layer.arithmetic(),
            weights: layer.format(),
            multiply_adds: layer.multiply_adds,
            is_zero: layer.is_zero,
        };
        Plan { layers: self.layers.iter().map(layer).collect() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInt8Form => formatter.write_str("it has no int8 kernel"),
            Self::InBurn => formatter.write_str("burn computes it, there is no other kernel"),
            Self::Overflow { channel, sum } => {
                write!(formatter, "sums of channel {channel} may reach {sum}, beyond 32 bits")
            }
            Self::Kept => formatter.write_str("kept by choice"),
            Self::Tail => formatter.write_str("little work on means over whole images"),
            Self::Faster => formatter.write_str("faster on this processor"),
            Self::WeightsOnly => formatter.write_str("weights alone are quantized"),
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int8 => formatter.write_str("int8"),
            Self::F32(reason) => write!(formatter, "f32: {reason}"),
        }
    }
}

/// One line per layer.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PlannedLayer { name, arithmetic, weights, is_zero, .. } in &self.layers {
            write!(formatter, "{name}: {arithmetic}")?;
            if let Some(format) = weights.filter(|format| format.bits() < 8) {
                write!(formatter, ", weights of {format}")?;
            }
            let zero = if *is_zero { ", zero for every calibration sample" } else { "" };
            writeln!(formatter, "{zero}")?;
        }
        Ok(())
    }
}
