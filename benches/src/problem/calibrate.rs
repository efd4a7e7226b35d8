//! Calibration: a network observed in f32 on images, and its weights packed in int8.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, Graph, QuantizedModel, Workspace};

use crate::problem::int8_network::{ANSWERS, Int8Network, Shape};
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, widened};

/// A network and the images that the ranges of its activations are taken from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibrate {
    pub(crate) shape: Shape,
    pub(crate) images: usize,
    pub(crate) method: Method,
}

/// The calibration method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    MinMax,
    Entropy,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::MinMax => "min-max",
            Self::Entropy => "entropy",
        }
    }

    const fn calibration(self) -> Calibration {
        match self {
            Self::MinMax => Calibration::MinMax,
            Self::Entropy => Calibration::Entropy,
        }
    }
}

impl Calibrate {
    /// The network that is evaluated, on images that it was not calibrated on.
    fn evaluated(&self) -> Int8Network {
        Int8Network { shape: self.shape, batch: 7 }
    }
}

impl Task for Calibrate {
    fn id(&self) -> String {
        let name = self.shape.name();
        format!("quant/calibrate-{}-{name}-{}", self.method.name(), self.images)
    }

    fn small(&self) -> Problem {
        let evaluated = self.evaluated();
        let Problem::Int8Network(Int8Network { shape, .. }) = evaluated.small() else {
            unreachable!("a smaller network is a network")
        };
        Problem::Calibrate(Self { shape, images: 24, ..*self })
    }

    /// The products of the forward passes in f32; watching and packing are not counted.
    fn work(&self) -> Work {
        Int8Network { shape: self.shape, batch: self.images }.work()
    }

    fn reference(&self) -> Result<Outputs> {
        self.evaluated().reference()
    }

    fn tolerance(&self) -> f64 {
        self.evaluated().tolerance()
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let evaluated = self.evaluated();
        Ok(Box::new(Run {
            graph: evaluated.graph()?,
            images: evaluated.samples("calibration", self.images),
            method: self.method,
            held: evaluated.samples("x", evaluated.batch),
            threads: site.threads,
        }))
    }
}

struct Run {
    graph: Graph,
    images: Vec<f32>,
    method: Method,
    held: Vec<f32>,
    threads: usize,
}

impl Run {
    fn calibrated(&self) -> Result<QuantizedModel> {
        let by = self.method.calibration();
        Ok(QuantizedModel::try_quantize(&self.graph, [&self.images], by)?)
    }
}

impl Repeat for Run {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.calibrated()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let model = self.calibrated()?;
        let each: usize = model.inputs()[0].numbers();
        let mut y = vec![0.0; self.held.len() / each * ANSWERS];
        model.run(Isa::detect(), &self.held, &mut y, &mut Workspace::new(), self.threads);
        Ok(Outputs::from([("answer".to_owned(), widened(&y))]))
    }
}
