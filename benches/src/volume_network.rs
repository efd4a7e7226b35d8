//! The U-Nets of the benchmarks, with parameters by formula.

use anyhow::{Result, ensure};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_models::{UNet2d, UNet3d, UNetConfig};

use crate::formula;
use crate::network::Path;

/// A U-Net with one channel in and one out, as MONAI's `DynUNet` with residual blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeNetwork {
    /// 2 for images, 3 for volumes.
    pub(crate) axes: usize,
    /// Filters of the three levels, the finest first.
    pub(crate) filters: [usize; 3],
}

/// A network of either kind.
#[derive(Debug)]
pub(crate) enum EitherNet {
    Images(UNet2d),
    Volumes(UNet3d),
}

impl VolumeNetwork {
    pub(crate) fn id(&self) -> String {
        let [first, ..] = self.filters;
        format!("{}d-f{first}", self.axes)
    }

    /// A network of the same kind that is quick to prove.
    pub(crate) fn small(&self) -> Self {
        Self { filters: [4, 6, 8], ..*self }
    }

    /// The network on a device.
    pub(crate) fn on_burn(&self, device: &Device) -> Result<EitherNet> {
        let config = UNetConfig::new(1, 1, &self.filters);
        config.validate()?;
        ensure!(matches!(self.axes, 2 | 3), "{} axes are none of images or volumes", self.axes);
        Ok(match self.axes {
            2 => EitherNet::Images(config.init_2d(device).map(&mut ByFormula::default())),
            _ => EitherNet::Volumes(config.init_3d(device).map(&mut ByFormula::default())),
        })
    }

    /// Multiply-adds of the forward pass of one sample with equal sides.
    pub(crate) fn multiply_adds(&self, side: usize) -> u64 {
        match self.on_burn(&Device::flex()) {
            Ok(EitherNet::Images(net)) => net.multiply_adds(&[side; 2]),
            Ok(EitherNet::Volumes(net)) => net.multiply_adds(&[side; 3]),
            Err(_) => 0,
        }
    }
}

/// Sets weight `k`, in the order of the record, to the values of the tensor `unet.k`.
#[derive(Default)]
struct ByFormula {
    path: Path,
    weights: usize,
}

impl ModuleMapper for ByFormula {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let dims = param.dims();
        let count = dims.iter().product();
        let values = match D {
            1 if self.path.joined().ends_with(".bias") => vec![0.0; count],
            // Normalizations keep their 1 and 0.
            1 => return param,
            _ => {
                let name = format!("unet.{}", self.weights);
                self.weights += 1;
                formula::tensor(&name, count, formula::weight_scale(dims[1..].iter().product()))
            }
        };
        param.map(|old| {
            let data = TensorData::new(values, dims);
            Tensor::from_data(data, &old.device()).set_require_grad(old.is_require_grad())
        })
    }
}
