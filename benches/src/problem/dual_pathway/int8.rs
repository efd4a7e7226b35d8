//! The dual-pathway network in int8 with images in and logits out, both in f32.

use std::path::Path as FilePath;

use anyhow::{Context, Result};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use updraft_integration::DualPathwayNet;
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, Graph, Quantization, QuantizedModel};

use super::{DualPathwayInference, reference};
use crate::network::Network;
use crate::problem::int8_run::in_int8;
use crate::problem::{Arithmetic, Outputs, Problem, Repeat, Site, Task, Work};
use crate::strategy::{FLOATS, Kernels};

/// The network as `quantize` makes it of a trained one, what follows the means in f32. Ranges are
/// the ends of the values of two images: the method of calibration changes no time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Int8DualPathway {
    pub(crate) network: Network,
    pub(crate) batch: usize,
}

/// Images of the calibration.
const CALIBRATION: usize = 2;
/// What peers read.
const FILE: &str = "model.onnx";

impl Int8DualPathway {
    fn quantized(&self, by: Quantization) -> Result<QuantizedModel> {
        let network = self.network.in_evaluation(&Device::flex())?;
        let side = self.network.side;
        let graph = Graph::try_capture(&network, [3, side, side], DualPathwayNet::forward)?;
        let samples = self.network.images("calibration", CALIBRATION);
        Ok(QuantizedModel::try_quantize(&graph, [samples], by.float_tail())?)
    }

    fn in_floats(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let Self { network, batch } = *self;
        Ok(Box::new(InFloats(DualPathwayInference { network, batch }.on_burn(site)?)))
    }
}

impl Task for Int8DualPathway {
    fn id(&self) -> String {
        format!("quant/{}-b{}", self.network.id(), self.batch)
    }

    fn small(&self) -> Problem {
        let network = self.network.small_in_evaluation();
        Problem::Int8DualPathway(Self { network, batch: 2 })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.batch as u64) }
    }

    fn choices(&self) -> Vec<String> {
        let share = |model: QuantizedModel| {
            let share = 100.0 * model.for_processor(Isa::detect()).plan().int8_share();
            format!("{share:.1} % of the multiply-adds in int8")
        };
        self.quantized(Calibration::MinMax.into()).map(share).into_iter().collect()
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::Int8
    }

    fn reference(&self) -> Result<Outputs> {
        let images = self.network.images("images", self.batch);
        Ok(Outputs::from([("answer".to_owned(), reference::logits(&self.network, &images))]))
    }

    /// Five times what rounding costs in the small network: 0.006, in PyTorch with rounded weights and
    /// activations. That the integers are exact is checked separately, and by the crate's own tests.
    fn tolerance(&self) -> f64 {
        0.03
    }

    fn write_inputs(&self, folder: &FilePath) -> Result<()> {
        let path = folder.join(FILE);
        // The form with which onnxruntime is fastest.
        let by = Quantization::new(Calibration::MinMax).separate_sums();
        std::fs::write(&path, self.quantized(by)?.to_onnx()?)
            .with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        match site.kernels {
            Kernels::Burn | Kernels::Forced(FLOATS) => self.in_floats(site),
            Kernels::Ours | Kernels::Forced(_) => {
                let model = self.quantized(Calibration::MinMax.into())?;
                let x = self.network.images("images", self.batch);
                let outputs = self.batch * self.network.classes;
                in_int8(site, model, x, outputs)
            }
        }
    }
}

/// The network in f32, whose result has the name of the one in int8.
struct InFloats(Box<dyn Repeat>);

impl Repeat for InFloats {
    fn once(&mut self) -> Result<()> {
        self.0.once()
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let logits = self.0.outputs()?.into_values();
        Ok(logits.map(|logits| ("answer".to_owned(), logits)).collect())
    }
}
