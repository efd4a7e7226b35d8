//! Our operations on burn's backend for GPUs.

use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::convolution::Convolution;
use super::linear::Linear;
use crate::ops::extension::{Geometry, KanBackend, Operand, Spec};
#[cfg(feature = "autodiff")]
use crate::ops::extension::{KanGradients, LayerGradients, Wanted};

impl KanBackend for CubeBackend {
    fn kan_layer(
        x: CubeTensor,
        spline: CubeTensor,
        base: Operand<Self>,
        scaler: Operand<Self>,
        bias: Operand<Self>,
        Spec { geometry, forms, .. }: Spec,
    ) -> CubeTensor {
        let edges = [base, scaler].map(Operand::given);
        let bias = bias.given().map(into_contiguous);
        match &geometry {
            Geometry::Linear(_) => Linear::new(x, spline, edges, &geometry).forward(bias, forms),
            Geometry::Conv(of) => {
                Convolution::new(x, spline, edges, of, forms).forward(bias.as_ref())
            }
        }
    }
}

#[cfg(feature = "autodiff")]
impl KanGradients for CubeBackend {
    fn kan_layer_gradients(
        x: CubeTensor,
        spline: CubeTensor,
        base: Operand<Self>,
        scaler: Operand<Self>,
        has_bias: bool,
        dy: CubeTensor,
        Spec { geometry, forms, .. }: Spec,
        wanted: Wanted,
    ) -> LayerGradients<Self> {
        let edges = [base, scaler].map(Operand::given);
        let dy = into_contiguous(dy);
        let has_bias = has_bias && wanted.parameters;
        if let Geometry::Conv(of) = &geometry {
            return Convolution::new(x, spline, edges, of, forms).gradients(&dy, has_bias, wanted);
        }
        let layer = Linear::new(x, spline, edges, &geometry);
        let (of_x, of_weights) = layer.gradients(&dy, wanted, forms);
        let of_scaler = of_weights.as_ref().and_then(|of| layer.scaler_gradient(&of.spline));
        let (of_spline, of_base) = of_weights.map(|of| (of.spline, of.base)).unzip();
        LayerGradients {
            x: Operand::from(of_x),
            spline: Operand::from(of_spline),
            base: Operand::from(of_base.flatten()),
            scaler: Operand::from(of_scaler),
            bias: Operand::from(has_bias.then(|| layer.bias_gradient(&dy))),
        }
    }
}
