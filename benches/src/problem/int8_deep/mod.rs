//! Deep networks in int8 with images in and answers out, both in f32.

mod floats;
mod layers;
mod reference;

use std::path::Path as FilePath;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use updraft_conv::LayerPath;
use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{Calibration, Graph, Quantization, QuantizedModel, Value, Window};

use self::floats::InFloats;
pub(crate) use self::layers::Family;
use self::layers::{Convolution, Parameters, Shortcut, answers};
use crate::formula;
use crate::problem::int8_run::in_int8;
use crate::problem::{Arithmetic, Outputs, Problem, Repeat, Site, Task, Work};
use crate::strategy::{FLOATS, Kernels};

/// A network and how many images run at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Int8Deep {
    pub(crate) network: Family,
    pub(crate) batch: usize,
    pub(crate) side: usize,
    /// One block for each stage and an eighth of the channels.
    pub(crate) is_small: bool,
}

pub(super) const ANSWERS: usize = 10;
/// Images of the calibration.
const CALIBRATION: usize = 4;
/// What peers read.
const FILE: &str = "model.onnx";

impl Int8Deep {
    fn samples(&self, name: &str, count: usize) -> Vec<f32> {
        formula::tensor(name, count * 3 * self.side * self.side, 1.0)
    }

    fn graph(&self) -> Result<Graph> {
        let mut graph = Graph::new();
        let mut x = graph.input("image", &[3, self.side, self.side])?;
        for block in self.network.blocks(self.is_small) {
            let mut y = x;
            for convolution in &block.path {
                y = convolved(&mut graph, y, convolution)?;
            }
            x = match &block.shortcut {
                Shortcut::None => y,
                Shortcut::Input => graph.add("sum", y, x)?,
                Shortcut::Convolution(shortcut) => {
                    let shortcut = convolved(&mut graph, x, shortcut)?;
                    graph.add("sum", y, shortcut)?
                }
            };
            if block.is_rectified {
                x = graph.rectifier("relu", x);
            }
        }
        let &[features, side, _] = graph.shape(x) else { unreachable!("images") };
        x = graph.pool("mean", x, Window::new([side; 2]), Pooling::MeanOfImage)?;
        let Parameters { weights, bias } = answers(features);
        graph.linear("answers", x, &weights, &bias)?;
        Ok(graph)
    }

    fn quantized(&self, by: Quantization) -> Result<QuantizedModel> {
        let samples = self.samples("calibration", CALIBRATION);
        Ok(QuantizedModel::try_quantize(&self.graph()?, [samples], by)?)
    }
}

fn convolved(graph: &mut Graph, x: Value, convolution: &Convolution) -> Result<Value> {
    let Convolution { name, kernel, stride, groups, is_rectified, .. } = convolution;
    let Parameters { weights, bias } = convolution.parameters();
    let window =
        Window { stride: [*stride; 2], padding: [*kernel / 2; 2], ..Window::new([*kernel; 2]) };
    let y = graph.convolution(name, x, window, *groups, &weights, &bias)?;
    Ok(if *is_rectified { graph.rectifier("relu", y) } else { y })
}

impl Task for Int8Deep {
    fn id(&self) -> String {
        format!("quant/{}-b{}", self.network.name(), self.batch)
    }

    fn small(&self) -> Problem {
        Problem::Int8Deep(Self { batch: 3, side: 12, is_small: true, ..*self })
    }

    fn work(&self) -> Work {
        let mut side = self.side;
        let mut products = 0;
        let mut features = 0;
        for block in self.network.blocks(self.is_small) {
            let mut now = side;
            for convolution in &block.path {
                now = convolution.output_side(now);
                products += convolution.fan_in() * convolution.channels[1] * now * now;
            }
            side = block.output_side(side);
            if let Shortcut::Convolution(shortcut) = &block.shortcut {
                products += shortcut.fan_in() * shortcut.channels[1] * side * side;
            }
            features = block.outputs();
        }
        products += features * ANSWERS;
        Work {
            operations: Some(2 * (self.batch * products) as u64),
            bytes: None,
            samples: Some(self.batch as u64),
        }
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
        let x = self.samples("x", self.batch);
        Ok(Outputs::from([("answer".to_owned(), self.in_f64(&x))]))
    }

    /// The error of int8 in the small networks; a wrong layer has a far larger one. That the
    /// integers are exact is checked separately, and by the crate's own tests.
    fn tolerance(&self) -> f64 {
        0.08
    }

    fn write_inputs(&self, folder: &FilePath) -> Result<()> {
        let path = folder.join(FILE);
        // The form with which onnxruntime is fastest.
        let by = Quantization::new(Calibration::MinMax).separate_sums();
        std::fs::write(&path, self.quantized(by)?.to_onnx()?)
            .with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let in_floats =
            |path| Ok(Box::new(InFloats::new(self, &site.device, path)) as Box<dyn Repeat>);
        match site.kernels {
            Kernels::Burn => in_floats(LayerPath::Plain),
            Kernels::Forced(FLOATS) => in_floats(LayerPath::of(&site.device)),
            Kernels::Ours | Kernels::Forced(_) => {
                let model = self.quantized(Calibration::MinMax.into())?;
                let x = self.samples("x", self.batch);
                in_int8(site, model, x, self.batch * ANSWERS)
            }
        }
    }
}
