//! The multiply-adds of a forward pass.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::network::DualPathwayNet;

impl DualPathwayNet {
    /// Multiply-adds of the forward pass of one image of this height and width.
    ///
    /// Counts convolutions and linear layers only; normalizations and activations are left out, as
    /// is usual.
    pub fn multiply_adds(&self, [height, width]: [usize; 2]) -> u64 {
        let stem = [height, width].map(|side| side.div_ceil(self.stem_stride()));
        let mut count = Count { path: Vec::new(), stem, sum: 0 };
        self.visit(&mut count);
        count.sum
    }
}

struct Count {
    path: Vec<String>,
    /// Height and width after the stems.
    stem: [usize; 2],
    sum: u64,
}

impl Count {
    /// The number of elements that a weight is applied to: those of the maps of its stage; each
    /// stage halves height and width, and all padding keeps the size.
    fn positions(&self) -> usize {
        let stage = match self.path.first().map(String::as_str) {
            Some("stages") => self.path.get(1).and_then(|index| index.parse().ok()).unwrap_or(0),
            _ => 0,
        };
        self.stem.iter().map(|side| side.div_ceil(1 << stage)).product()
    }
}

impl ModuleVisitor for Count {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weights = param.lazy_shape().num_elements();
        let times = match D {
            4 => self.positions(),
            2 => 1,
            _ => 0,
        };
        self.sum += (weights * times) as u64;
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use crate::config::{DualPathwayConfig, IntegrationPoint};

    #[test]
    fn a_small_network_costs_what_its_layers_cost_by_hand() {
        // Widths 2 and 4, integrated after the second; 16 × 16 behind the stems are 8 × 8.
        let config = DualPathwayConfig::new(3, 2)
            .with_stem_stride(2)
            .with_integration_points(vec![IntegrationPoint::Late]);
        let net = config.init(&Device::flex());
        let stems = (3 + 1) * 2 * 9 * 64;
        let block = |input: usize, output: usize, positions: usize, shortcut: bool| {
            let convolutions = input * output * 9 + output * output * 9;
            (convolutions + if shortcut { input * output } else { 0 }) * positions
        };
        let widths = [2, 4];
        let stages = 2 * block(2, widths[0], 64, false) + 2 * block(widths[0], widths[1], 16, true);
        let last = widths[1];
        let gate = (2 * last * last + last * last) * 16;
        // Mix and projection of the pooled gate, then the classifier's two layers.
        let head = 2 * last * last + last * last + last * (last / 2) + (last / 2) * 3;
        assert_eq!(net.multiply_adds([16, 16]), (stems + stages + gate + head) as u64);
    }
}
