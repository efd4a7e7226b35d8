//! The other layers of a U-Net: transposed convolutions, normalization, pooling, interpolation.

use anyhow::{Result, ensure};
use burn::tensor::module::{conv_transpose2d, conv_transpose3d, interpolate};
use burn::tensor::ops::{ConvTransposeOptions, InterpolateMode, InterpolateOptions};
use burn::tensor::{DType, Device, Tensor, activation};
use serde::{Deserialize, Serialize};
use updraft_conv::{
    Activation, Alignment, AvgPool3d, AvgPool3dConfig, LayerPath, MaxPool3d, MaxPool3dConfig, Slope,
};

use crate::formula;
use crate::problem::layer_pass::{Layer, LayerPass, Leaves};
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work};
use crate::strategy::Kernels;

const EPSILON: f64 = 1e-5;

const SLOPE: f32 = 0.01;

/// A layer of images or volumes with equal sides, f32, channels first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct VolumeLayer {
    pub(crate) layer: LayerKind,
    /// 2 for images, 3 for volumes; normalization and pooling are those of volumes.
    pub(crate) axes: usize,
    pub(crate) batch: usize,
    /// Input and output channels; equal but for convolutions.
    pub(crate) channels: [usize; 2],
    /// Every side of the input.
    pub(crate) side: usize,
    pub(crate) pass: Pass,
}

/// The kind of layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LayerKind {
    /// Kernel and stride 2, without bias: every side doubles.
    ConvTranspose,
    /// With scale and shift, then leaky `ReLU` of slope 0.01.
    InstanceNorm,
    /// The same of four groups of channels.
    GroupNorm,
    /// The maximum of blocks of 2 × 2 × 2.
    MaxPool,
    /// Their average.
    AvgPool,
    /// Linear interpolation to double sides, outer edges aligned.
    Resize,
}

impl LayerKind {
    const fn name(self) -> &'static str {
        match self {
            Self::ConvTranspose => "conv-transpose",
            Self::InstanceNorm => "instance-norm",
            Self::GroupNorm => "group-norm",
            Self::MaxPool => "max-pool",
            Self::AvgPool => "avg-pool",
            Self::Resize => "resize",
        }
    }

    /// The groups of a normalization of so many channels; `None` of another layer.
    const fn groups(self, channels: usize) -> Option<usize> {
        match self {
            Self::InstanceNorm => Some(channels),
            Self::GroupNorm => Some(4),
            _ => None,
        }
    }

    /// The sides of a result.
    const fn output(self, side: usize) -> usize {
        match self {
            Self::ConvTranspose | Self::Resize => 2 * side,
            Self::InstanceNorm | Self::GroupNorm => side,
            Self::MaxPool | Self::AvgPool => side / 2,
        }
    }
}

impl VolumeLayer {
    /// Numbers of input and result.
    fn counts(&self) -> [usize; 2] {
        let axes = self.axes as u32;
        let [input, output] = self.channels;
        let out = self.layer.output(self.side);
        [self.batch * input * self.side.pow(axes), self.batch * output * out.pow(axes)]
    }

    fn shape<const D: usize>(&self, channels: usize, side: usize) -> [usize; D] {
        let mut shape = [side; D];
        (shape[0], shape[1]) = (self.batch, channels);
        shape
    }

    /// The layer of a kind that `D` axes have, with its leaves by formula.
    fn on_tensors<const D: usize>(
        &self,
        layer: Layer<D>,
        dtype: DType,
        device: &Device,
    ) -> LayerPass<D> {
        let [input, output] = self.channels;
        let [x, y] = self.counts();
        let x = (formula::tensor("x", x, 1.0), self.shape(input, self.side));
        let g = (formula::tensor("g", y, 1.0), self.shape(output, self.layer.output(self.side)));
        let w = (self.layer == LayerKind::ConvTranspose).then(|| {
            let mut shape = [2; D];
            (shape[0], shape[1]) = (input, output);
            let scale = formula::weight_scale(input);
            (formula::tensor("w", shape.iter().product(), scale), shape)
        });
        let affine = self.layer.groups(input).map(|_| {
            let gamma = formula::tensor("gamma", input, 0.5);
            let gamma = gamma.iter().map(|value| value + 1.0).collect();
            [gamma, formula::tensor("beta", input, 0.5)]
        });
        LayerPass::new(layer, [x, g], w, affine, (self.pass, dtype), device)
    }

    fn of_volumes(&self, is_ours: bool) -> Layer<5> {
        match (self.layer, is_ours) {
            (LayerKind::ConvTranspose, _) => Box::new(move |Leaves { x, w, .. }| {
                let w = w.expect("a convolution has weights");
                let options = ConvTransposeOptions::new([2; 3], [0; 3], [0; 3], [1; 3], 1);
                match is_ours {
                    true => updraft_conv::conv_transpose3d(x, w, None, options),
                    false => conv_transpose3d(x, w, None, options),
                }
            }),
            (kind @ (LayerKind::InstanceNorm | LayerKind::GroupNorm), _) => {
                Box::new(move |Leaves { x, affine, .. }| {
                    let [gamma, beta] = affine.expect("a normalization has a scale and a shift");
                    let groups = kind.groups(gamma.dims()[0]).expect("it has groups");
                    match is_ours {
                        true => {
                            let activation = Activation::LeakyRelu(Slope::new(SLOPE));
                            updraft_conv::group_norm(x, gamma, beta, groups, EPSILON, activation)
                        }
                        false => normalize(x, gamma, beta, groups),
                    }
                })
            }
            (LayerKind::MaxPool, _) => {
                let layer = MaxPool3d::new(MaxPool3dConfig::new([2; 3]));
                let layer = if is_ours { layer } else { layer.with_path(LayerPath::Plain) };
                Box::new(move |leaves| layer.forward(leaves.x))
            }
            (LayerKind::AvgPool, _) => {
                let layer = AvgPool3d::new(AvgPool3dConfig::new([2; 3]));
                let layer = if is_ours { layer } else { layer.with_path(LayerPath::Plain) };
                Box::new(move |leaves| layer.forward(leaves.x))
            }
            (LayerKind::Resize, true) => Box::new(|Leaves { x, .. }| {
                let [_, _, depth, height, width] = x.dims();
                let output = [2 * depth, 2 * height, 2 * width];
                updraft_conv::resize3d(x, output, Alignment::Edges)
            }),
            (LayerKind::Resize, false) => Box::new(|leaves| resize_by_slices(leaves.x)),
        }
    }

    fn of_images(&self, is_ours: bool) -> Result<Layer<4>> {
        Ok(match self.layer {
            LayerKind::ConvTranspose => Box::new(move |Leaves { x, w, .. }| {
                let w = w.expect("a convolution has weights");
                let options = ConvTransposeOptions::new([2; 2], [0; 2], [0; 2], [1; 2], 1);
                match is_ours {
                    true => updraft_conv::conv_transpose2d(x, w, None, options),
                    false => conv_transpose2d(x, w, None, options),
                }
            }),
            LayerKind::Resize => Box::new(move |Leaves { x, .. }| {
                let [_, _, height, width] = x.dims();
                let output = [2 * height, 2 * width];
                match is_ours {
                    true => updraft_conv::resize2d(x, output, Alignment::Edges),
                    false => double(x, output),
                }
            }),
            kind => anyhow::bail!("`{}` is a problem of volumes only", kind.name()),
        })
    }

    fn prepared(&self, dtype: DType, device: &Device, is_ours: bool) -> Result<Box<dyn Repeat>> {
        ensure!(matches!(self.axes, 2 | 3), "{} axes are none of images or volumes", self.axes);
        Ok(match self.axes {
            2 => Box::new(self.on_tensors(self.of_images(is_ours)?, dtype, device)),
            _ => Box::new(self.on_tensors(self.of_volumes(is_ours), dtype, device)),
        })
    }
}

/// Normalization of groups of channels and leaky `ReLU` by burn's operations.
fn normalize(x: Tensor<5>, gamma: Tensor<1>, beta: Tensor<1>, groups: usize) -> Tensor<5> {
    let [batch, channels, depth, height, width] = x.dims();
    let pixels = depth * height * width;
    let flat = x.reshape([batch, groups, channels / groups * pixels]);
    let mean = flat.clone().mean_dim(2);
    let centered = flat - mean;
    let variance = (centered.clone() * centered.clone()).mean_dim(2);
    let normal = centered / (variance + EPSILON).sqrt();
    let normal = normal.reshape([batch, channels, pixels]);
    let y = normal * gamma.reshape([1, channels, 1]) + beta.reshape([1, channels, 1]);
    let y = y.reshape([batch, channels, depth, height, width]);
    activation::leaky_relu(y, SLOPE.into())
}

/// Linear interpolation of images by burn's operation.
fn double(x: Tensor<4>, output: [usize; 2]) -> Tensor<4> {
    let options = InterpolateOptions::new(InterpolateMode::Bilinear)
        .with_align_corners(false)
        .with_output_size(output);
    interpolate(x, options)
}

/// The same of volumes: of each slice, then along the depth.
fn resize_by_slices(x: Tensor<5>) -> Tensor<5> {
    let [batch, channels, depth, height, width] = x.dims();
    let [rows, columns] = [2 * height, 2 * width];
    let slices = double(x.reshape([batch, channels * depth, height, width]), [rows, columns]);
    let lines = slices.reshape([batch, channels, depth, rows * columns]);
    let lines = double(lines, [2 * depth, rows * columns]);
    lines.reshape([batch, channels, 2 * depth, rows, columns])
}

impl Task for VolumeLayer {
    fn id(&self) -> String {
        let Self { layer, axes, batch, channels: [input, output], side, pass } = self;
        let channels =
            if input == output { format!("{input}ch") } else { format!("{input}to{output}") };
        format!("{}{axes}d/{}-b{batch}-{channels}-{side}px", layer.name(), pass.name())
    }

    fn small(&self) -> Problem {
        // An odd side ends within a vector; pooling leaves a row out.
        Problem::VolumeLayer(Self { batch: 2, side: 9, ..self.clone() })
    }

    fn work(&self) -> Work {
        let [x, y] = self.counts();
        let moved = match self.pass {
            Pass::Forward => x + y,
            // Reads x and g, writes y and dx; parameters are few.
            Pass::Training => 2 * (x + y),
        };
        let operations = (self.layer == LayerKind::ConvTranspose).then(|| {
            let passes = if self.pass == Pass::Training { 3 } else { 1 };
            // Every result has one tap of each input channel.
            (2 * passes * y * self.channels[0]) as u64
        });
        Work { operations, bytes: Some(4 * moved as u64), samples: Some(self.batch as u64) }
    }

    /// burn's operations in f64 on flex, independent of our kernels.
    fn reference(&self) -> Result<Outputs> {
        self.prepared(DType::F64, &Device::flex(), false)?.outputs()
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        self.prepared(DType::F32, &site.device, site.kernels == Kernels::Ours)
    }
}
