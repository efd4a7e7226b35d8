//! Which layer runs in eight bits, which in f32, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::QuantizedModel;

/// What a layer computes in.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Arithmetic {
    /// Eight bits, with sums in 32.
    Int8,
    /// f32, for a reason.
    F32(Reason),
}

/// Why a layer runs in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// There is no kernel for eight bits.
    NoInt8Form,
    /// Its sums could leave 32 bits.
    Overflow {
        /// The output channel.
        channel: usize,
        /// The sum of largest magnitude that inputs may lead to.
        sum: i64,
    },
    /// The caller asked for it.
    Kept,
    /// It ends the network on means over whole images, with little work.
    Tail,
}

/// One layer of a plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlannedLayer {
    /// The names of its layers, joined by `+`.
    pub name: String,
    /// What it computes in.
    pub arithmetic: Arithmetic,
    /// Multiplications, each with its addition, for one sample.
    pub multiply_adds: usize,
    /// Whether it gave nothing but zero for every calibration sample.
    pub is_zero: bool,
}

/// What each layer of a model computes in, in the order in which they run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The layers.
    pub layers: Vec<PlannedLayer>,
}

impl Plan {
    /// The share of all multiply-adds that run in eight bits; 1 where there are none.
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

    /// Whether every layer runs in eight bits.
    #[must_use]
    pub fn is_int8(&self) -> bool {
        self.layers.iter().all(|layer| layer.arithmetic == Arithmetic::Int8)
    }
}

impl QuantizedModel {
    /// What each layer computes in.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let layer = |layer: &super::layer::QuantizedLayer| PlannedLayer {
            name: layer.name.clone(),
            arithmetic: layer.arithmetic(),
            multiply_adds: layer.multiply_adds,
            is_zero: layer.is_zero,
        };
        Plan { layers: self.layers.iter().map(layer).collect() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInt8Form => formatter.write_str("it has no form in eight bits"),
            Self::Overflow { channel, sum } => {
                write!(formatter, "sums of channel {channel} may reach {sum}, beyond 32 bits")
            }
            Self::Kept => formatter.write_str("kept by choice"),
            Self::Tail => formatter.write_str("little work on means over whole images"),
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

/// One line a layer.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PlannedLayer { name, arithmetic, is_zero, .. } in &self.layers {
            let zero = if *is_zero { ", zero for every calibration sample" } else { "" };
            writeln!(formatter, "{name}: {arithmetic}{zero}")?;
        }
        Ok(())
    }
}
