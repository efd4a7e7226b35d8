//! Problems: what is computed, on which numbers, and how a result is checked.

pub(crate) mod batch_norm;
pub(crate) mod calibrate;
pub(crate) mod conv2d;
pub(crate) mod conv3d;
#[cfg(feature = "cube")]
mod cube_int8;
pub(crate) mod decode;
pub(crate) mod dual_autoencoder;
pub(crate) mod dual_pathway;
pub(crate) mod folded_network;
pub(crate) mod four_bit_product;
pub(crate) mod gather;
pub(crate) mod int8_deep;
pub(crate) mod int8_layer;
pub(crate) mod int8_network;
pub(crate) mod int8_product;
mod int8_run;
pub(crate) mod kan_basis;
pub(crate) mod kan_basis_conv;
pub(crate) mod kan_beside;
pub(crate) mod kan_conv;
pub(crate) mod kan_layer;
pub(crate) mod kan_pass;
pub(crate) mod layer_pass;
pub(crate) mod matmul;
pub(crate) mod optimizer;
pub(crate) mod photos;
pub(crate) mod prepare_table;
pub(crate) mod read_table;
pub(crate) mod repeated;
pub(crate) mod sliding;
pub(crate) mod table_step;
pub(crate) mod train_step;
pub(crate) mod transformer;
pub(crate) mod unet;
pub(crate) mod volume_layer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_precision::Parity;

use crate::strategy::Kernels;

/// A problem of the catalogue, as its workers receive it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Problem {
    Matmul(matmul::Matmul),
    Conv2d(conv2d::Conv2d),
    KanLayer(kan_layer::KanLayer),
    KanConv(kan_conv::KanConv),
    KanBasis(kan_basis::KanBasis),
    KanBasisConv(kan_basis_conv::KanBasisConv),
    BatchNorm(batch_norm::BatchNorm),
    TrainStep(train_step::TrainStep),
    Optimizer(optimizer::OptimizerStep),
    Decode(decode::Decode),
    Photos(photos::Photos),
    Gather(gather::Gather),
    ReadTable(read_table::ReadTable),
    PrepareTable(prepare_table::PrepareTable),
    TableStep(table_step::TableStep),
    Int8Product(int8_product::Int8Product),
    FourBitProduct(four_bit_product::FourBitProduct),
    Int8Layer(int8_layer::Int8Layer),
    Int8Deep(int8_deep::Int8Deep),
    Int8Network(int8_network::Int8Network),
    Calibrate(calibrate::Calibrate),
    Conv3d(conv3d::Conv3d),
    VolumeLayer(volume_layer::VolumeLayer),
    UNet(unet::UNetPass),
    Sliding(sliding::Sliding),
    DualAutoencoder(dual_autoencoder::DualAutoencoderPass),
    DualPathwayInference(dual_pathway::DualPathwayInference),
    Int8DualPathway(dual_pathway::Int8DualPathway),
    FoldedNetwork(folded_network::FoldedNetwork),
    Transformer(transformer::Transformer),
}

impl Problem {
    /// The operations of every kind of problem.
    pub(crate) fn task(&self) -> &dyn Task {
        match self {
            Self::Matmul(task) => task,
            Self::Conv2d(task) => task,
            Self::KanLayer(task) => task,
            Self::KanConv(task) => task,
            Self::KanBasis(task) => task,
            Self::KanBasisConv(task) => task,
            Self::BatchNorm(task) => task,
            Self::TrainStep(task) => task,
            Self::Optimizer(task) => task,
            Self::Decode(task) => task,
            Self::Photos(task) => task,
            Self::Gather(task) => task,
            Self::ReadTable(task) => task,
            Self::PrepareTable(task) => task,
            Self::TableStep(task) => task,
            Self::Int8Product(task) => task,
            Self::FourBitProduct(task) => task,
            Self::Int8Layer(task) => task,
            Self::Int8Deep(task) => task,
            Self::Int8Network(task) => task,
            Self::Calibrate(task) => task,
            Self::Conv3d(task) => task,
            Self::VolumeLayer(task) => task,
            Self::UNet(task) => task,
            Self::Sliding(task) => task,
            Self::DualAutoencoder(task) => task,
            Self::DualPathwayInference(task) => task,
            Self::Int8DualPathway(task) => task,
            Self::FoldedNetwork(task) => task,
            Self::Transformer(task) => task,
        }
    }
}

/// The part of a layer that is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pass {
    /// The result alone, without a graph.
    Forward,
    /// The result and, from the loss `Σ y·g`, the gradients of input and parameters.
    Training,
}

impl Pass {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Training => "training",
        }
    }

    /// The device with a graph of gradients, if the pass needs one.
    pub(crate) fn device(self, device: &Device) -> Device {
        match self {
            Self::Forward => device.clone(),
            Self::Training => device.clone().autodiff(),
        }
    }
}

/// One kind of problem at one size.
pub(crate) trait Task {
    /// Its name in the catalog.
    fn id(&self) -> String;

    /// The same computation on a shape small enough to be proved.
    fn small(&self) -> Problem;

    /// The work of one repetition.
    fn work(&self) -> Work;

    /// The right results, by an independent computation in f64.
    fn reference(&self) -> Result<Outputs>;

    /// The largest error allowed, as a share of the largest value of each result.
    fn tolerance(&self) -> f64;

    /// The same on a GPU.
    fn tolerance_on_gpu(&self) -> f64 {
        self.tolerance()
    }

    /// The error of a strategy's results, by the problem's own reference unless the strategy
    /// computes something else on purpose.
    fn compare(&self, _strategy: &str, outputs: &Outputs, reference: &Outputs) -> Result<Proof> {
        Ok(Proof { error: error_of(outputs, reference)?, tolerance: self.tolerance() })
    }

    /// The algorithms that our kernels choose on this CPU, with reasons; one line each.
    fn choices(&self) -> Vec<String> {
        Vec::new()
    }

    /// The numbers it is defined on; other strategies may compute the same in others.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::F32
    }

    /// Whether the memory of each strategy is printed beside its time.
    fn reports_memory(&self) -> bool {
        false
    }

    /// Writes what the computation reads from files.
    fn write_inputs(&self, _folder: &Path) -> Result<()> {
        Ok(())
    }

    /// The computation with our crates and burn.
    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>>;
}

/// The device, kernels and threads of a computation.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) device: Device,
    pub(crate) kernels: Kernels,
    /// The threads of our kernels; those of burn follow the environment.
    pub(crate) threads: usize,
    /// The folder of [`Task::write_inputs`].
    pub(crate) folder: PathBuf,
}

/// Numbers whose products a machine's peak counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    F32,
    /// Unsigned by signed bytes, summed in 32 bits.
    Int8,
}

/// The work of one repetition, for every strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Arithmetic operations on the problem's numbers; a multiply-add counts two.
    /// `None` if the number is not meaningful.
    pub(crate) operations: Option<u64>,
    /// The least that has to be moved: every input read once, every output written once.
    pub(crate) bytes: Option<u64>,
    /// Samples, where the problem is a batch.
    pub(crate) samples: Option<u64>,
}

/// The error of a strategy on the small shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Proof {
    /// The largest error as a share of the largest value, unless the problem defines it otherwise.
    pub(crate) error: f64,
    pub(crate) tolerance: f64,
}

/// Results by name.
pub(crate) type Outputs = BTreeMap<String, Vec<f64>>;

/// A prepared computation.
pub(crate) trait Repeat {
    /// Computes once, completely.
    fn once(&mut self) -> Result<()>;

    /// The results of a computation from the problem's inputs.
    fn outputs(&mut self) -> Result<Outputs>;
}

/// The values of a tensor, read back.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Results of a kernel on slices.
pub(crate) fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// The error of results.
///
/// # Errors
/// If a result is missing, has another length or is not finite.
pub(crate) fn error_of(outputs: &Outputs, reference: &Outputs) -> Result<f64> {
    let mut worst = 0.0_f64;
    for (name, right) in reference {
        let Some(given) = outputs.get(name) else { anyhow::bail!("`{name}` is missing") };
        if let Some(index) = given.iter().position(|value| !value.is_finite()) {
            anyhow::bail!("`{name}`[{index}] is {}", given[index]);
        }
        let parity = Parity::between(right, given).with_context(|| format!("`{name}`"))?;
        worst = worst.max(parity.max_rel);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(values: &[f64]) -> Outputs {
        Outputs::from([("y".to_owned(), values.to_vec())])
    }

    #[test]
    fn the_error_is_relative_to_the_largest_value() {
        let error = error_of(&outputs(&[1.0, 10.5]), &outputs(&[1.0, 10.0])).expect("comparable");
        assert!((error - 0.05).abs() < 1e-12);
    }

    #[test]
    fn results_that_cannot_be_right_are_refused() {
        let right = outputs(&[1.0, 2.0]);
        for (wrong, said) in [
            (Outputs::new(), "missing"),
            (outputs(&[1.0]), "`y`: cannot compare 2 values with 1"),
            (outputs(&[1.0, f64::NAN]), "`y`[1] is NaN"),
        ] {
            let message = format!("{:#}", error_of(&wrong, &right).expect_err("wrong"));
            assert!(message.contains(said), "{message}");
        }
    }
}
