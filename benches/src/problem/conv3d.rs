//! Convolution of volumes: forward, each gradient by itself, and forward with both.

use anyhow::{Result, bail};
use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};
use updraft_conv::Activation;
use updraft_conv::slices::{
    Conv3dGeometry, Conv3dShape, Isa, Pass as KernelPass, Scratch, Strategy, forward_3d,
    input_gradient_3d, reference, strategy, weight_gradient_3d,
};

use crate::formula;
use crate::problem::conv2d::ConvPass;
use crate::problem::layer_pass::{Layer, LayerPass};
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, widened};
use crate::strategy::{Kernels, isa_named};

/// A cubic kernel over volumes, f32, NCDHW, padded by half the kernel, without bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conv3d {
    pub(crate) batch: usize,
    /// Input and output channels.
    pub(crate) channels: [usize; 2],
    /// Depth, height and width of the input, in voxels.
    pub(crate) sides: [usize; 3],
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) pass: ConvPass,
}

impl Conv3d {
    fn geometry(&self) -> Result<Conv3dGeometry> {
        Ok(Conv3dGeometry::try_new(Conv3dShape {
            stride: [self.stride; 3],
            padding: [self.kernel / 2; 3],
            ..Conv3dShape::new(self.batch, self.channels, self.sides, [self.kernel; 3])
        })?)
    }

    fn passes(&self) -> &'static [KernelPass] {
        match self.pass {
            ConvPass::Forward => &[KernelPass::Forward],
            ConvPass::InputGradient => &[KernelPass::InputGradient],
            ConvPass::WeightGradient => &[KernelPass::WeightGradient],
            ConvPass::Training => &KernelPass::ALL,
        }
    }

    /// How our kernels compute its passes on this CPU.
    pub(crate) fn strategies(&self) -> Result<Vec<(KernelPass, Strategy)>> {
        let geometry = self.geometry()?;
        let chosen = |&pass: &KernelPass| (pass, strategy(Isa::detect(), &geometry, pass));
        Ok(self.passes().iter().map(chosen).collect())
    }

    fn shapes(&self) -> Result<[[usize; 5]; 3]> {
        let ([input, output], k, n) = (self.channels, self.kernel, self.batch);
        let ([a, b, c], [d, e, f]) = (self.sides, self.geometry()?.output());
        Ok([[n, input, a, b, c], [output, input, k, k, k], [n, output, d, e, f]])
    }

    /// Input, weights and the loss's factors.
    fn inputs(&self) -> Result<[Vec<f32>; 3]> {
        let [x, w, g] = self.shapes()?.map(|shape| shape.iter().product());
        let scale = formula::weight_scale(self.channels[0] * self.kernel.pow(3));
        Ok([
            formula::tensor("x", x, 1.0),
            formula::tensor("w", w, scale),
            formula::tensor("g", g, 1.0),
        ])
    }

    /// The computation on burn's tensors: the result, or the result with both gradients.
    fn on_tensors(&self, pass: Pass, device: &Device, is_ours: bool) -> Result<LayerPass<5>> {
        let [x, w, g] = self.inputs()?;
        let [x_shape, w_shape, g_shape] = self.shapes()?;
        let options = ConvOptions::new([self.stride; 3], [self.kernel / 2; 3], [1, 1, 1], 1);
        let layer: Layer<5> = Box::new(move |leaves| {
            let w = leaves.w.expect("a convolution has weights");
            let options = options.clone();
            match is_ours {
                true => updraft_conv::conv3d(leaves.x, w, None, options),
                false => conv3d(leaves.x, w, None, options),
            }
        });
        let given = [(x, x_shape), (g, g_shape)];
        Ok(LayerPass::new(layer, given, Some((w, w_shape)), None, (pass, DType::F32), device))
    }
}

impl Task for Conv3d {
    fn id(&self) -> String {
        let Self { batch, channels: [input, output], sides, kernel, stride, pass } = self;
        let stride = if *stride == 1 { String::new() } else { format!("s{stride}") };
        let (pass, side) = (pass.name(), sides[2]);
        format!("conv3d/{pass}-b{batch}-{input}to{output}-{side}px-k{kernel}{stride}")
    }

    fn small(&self) -> Problem {
        // Rows still fill a vector and end within one, so that the algorithms are the same.
        let shape = |&sides: &[usize; 3]| Self { batch: 1, sides, ..self.clone() };
        let is_alike = |small: &Self| small.strategies().ok() == self.strategies().ok();
        let sides = [[3, 5, 9], [3, 5, 18], [3, 12, 20], [3, 13, 34], [3, 13, 36]];
        let small = sides.iter().map(shape).find(is_alike);
        Problem::Conv3d(small.unwrap_or_else(|| shape(&sides[4])))
    }

    fn work(&self) -> Work {
        let Ok(shapes) = self.shapes() else {
            return Work { operations: None, bytes: None, samples: Some(self.batch as u64) };
        };
        let [x, w, y] = shapes.map(|shape| shape.iter().product::<usize>());
        let products = y * self.channels[0] * self.kernel.pow(3);
        let (passes, moved) = match self.pass {
            // Reads x, w and g; writes y, dx and dw.
            ConvPass::Training => (3, 2 * (x + w + y)),
            _ => (1, x + w + y),
        };
        Work {
            operations: Some((2 * passes * products) as u64),
            bytes: Some(4 * moved as u64),
            samples: Some(self.batch as u64),
        }
    }

    /// The convolution by its definition, in f64.
    fn reference(&self) -> Result<Outputs> {
        let [x, w, g] = self.inputs()?.map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
        let geometry = self.geometry()?;
        let mut outputs = Outputs::new();
        for pass in self.passes() {
            let (name, values) = match pass {
                KernelPass::InputGradient => {
                    ("dx", reference::input_gradient_3d(&geometry, &g, &w))
                }
                KernelPass::WeightGradient => {
                    ("dw", reference::weight_gradient_3d(&geometry, &x, &g))
                }
                _ => ("y", reference::forward_3d(&geometry, &x, &w, None)),
            };
            outputs.insert(name.to_owned(), values);
        }
        Ok(outputs)
    }

    fn choices(&self) -> Vec<String> {
        let strategies = self.strategies().unwrap_or_default();
        strategies.into_iter().map(|(pass, chosen)| format!("{pass}: {chosen}")).collect()
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let pass = match self.pass {
            ConvPass::Forward => Some(Pass::Forward),
            ConvPass::Training => Some(Pass::Training),
            ConvPass::InputGradient | ConvPass::WeightGradient => None,
        };
        match (site.kernels, pass) {
            (Kernels::Forced(name), _) => {
                Ok(Box::new(OnSlices::new(self, isa_named(name)?, site)?))
            }
            (Kernels::Ours, None) => Ok(Box::new(OnSlices::new(self, Isa::detect(), site)?)),
            (Kernels::Burn, None) => bail!("burn has no operation for one gradient"),
            (kernels, Some(pass)) => {
                let is_ours = kernels == Kernels::Ours;
                Ok(Box::new(self.on_tensors(pass, &site.device, is_ours)?))
            }
        }
    }
}

/// Our kernels without burn, into existing memory.
struct OnSlices {
    isa: Isa,
    geometry: Conv3dGeometry,
    passes: &'static [KernelPass],
    inputs: [Vec<f32>; 3],
    y: Vec<f32>,
    dx: Vec<f32>,
    dw: Vec<f32>,
    scratch: Scratch,
    threads: usize,
}

impl OnSlices {
    fn new(problem: &Conv3d, isa: Isa, site: &Site) -> Result<Self> {
        let inputs = problem.inputs()?;
        let [dx, dw, y] = [0, 1, 2].map(|index: usize| vec![0.0; inputs[index].len()]);
        Ok(Self {
            isa,
            geometry: problem.geometry()?,
            passes: problem.passes(),
            inputs,
            y,
            dx,
            dw,
            scratch: Scratch::new(),
            threads: site.threads,
        })
    }
}

impl Repeat for OnSlices {
    fn once(&mut self) -> Result<()> {
        let Self { isa, geometry, passes, inputs: [x, w, g], y, dx, dw, scratch, threads } = self;
        let (isa, threads) = (*isa, *threads);
        for pass in *passes {
            match pass {
                KernelPass::InputGradient => {
                    input_gradient_3d(isa, geometry, g, w, None, dx, scratch, threads);
                }
                KernelPass::WeightGradient => {
                    weight_gradient_3d(isa, geometry, x, g, dw, scratch, threads);
                }
                _ => {
                    let none = Activation::Identity;
                    forward_3d(isa, geometry, x, w, None, none, y, scratch, threads);
                }
            }
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let all = [("y", &self.y), ("dx", &self.dx), ("dw", &self.dw)];
        Ok(all.into_iter().map(|(name, values)| (name.to_owned(), widened(values))).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::entries;
    use crate::problem::Problem;

    #[test]
    fn the_small_volume_is_computed_as_the_large_one() {
        for entry in entries() {
            let Problem::Conv3d(large) = &entry.problem else { continue };
            let Problem::Conv3d(small) = entry.problem.task().small() else {
                panic!("the small shape of a convolution is one")
            };
            let [large, small] = [large, &small].map(|of| of.strategies().expect("valid"));
            assert_eq!(large, small, "{}", entry.id);
        }
    }
}
