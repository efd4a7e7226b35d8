//! A KAN layer as one operation.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{DType, Device, Tensor, assert_shape};
#[cfg(feature = "flex")]
use updraft_simd::Products;

use super::packed_cache::PackedCache;
use super::plain;
use super::reason::PlainReason;
use super::report::report;
#[cfg(any(feature = "flex", feature = "cube"))]
use super::{
    extension::Geometry,
    fused,
    listed::{Kernels, kernels_of},
};
use crate::grid::Grid;
#[cfg(feature = "flex")]
use crate::kernels::Weights;
use crate::kernels::{CubeForm, Isa, LayerGeometry};

/// A layer's parameters, as tensors.
#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    /// Coefficients of the splines, `[in_features, bases, out_features]`.
    pub(crate) spline: Tensor<3>,
    /// Weights of the base branch, `[in_features, out_features]`.
    pub(crate) base: Option<Tensor<2>>,
    /// Factors of the splines, `[in_features, out_features]`.
    pub(crate) scaler: Option<Tensor<2>>,
    /// Initial values of the outputs, `[out_features]`.
    pub(crate) bias: Option<Tensor<1>>,
}

/// Whether layers without a path of their own take burn's operations.
static PREFERS_PLAIN: AtomicBool = AtomicBool::new(false);

/// The implementation of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerPath {
    /// Our kernels on the CPU, with this instruction set.
    Kernels(Isa),
    /// Our kernels for GPUs, which CubeCL compiles for the device, in the form that they choose.
    Cube,
    /// The same in this form.
    CubeIn(CubeForm),
    /// burn's own operations: all basis values are stored, then multiplied as a matrix.
    Plain,
}

impl LayerPath {
    /// Makes [`Plain`](Self::Plain) the default of every device in this process, to compare our
    /// kernels with burn's operations. Layers that exist already may have chosen kernels.
    pub fn make_plain_default() {
        PREFERS_PLAIN.store(true, Ordering::Relaxed);
    }

    /// The default of a device, for the layers that its kernels compute.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        Self::of_device(device).unwrap_or(Self::Plain)
    }

    #[cfg(any(feature = "flex", feature = "cube"))]
    fn of_device(device: &Device) -> Result<Self, PlainReason> {
        if PREFERS_PLAIN.load(Ordering::Relaxed) {
            return Err(PlainReason::Forced);
        }
        kernels_of(device).map(|kernels| match kernels {
            Kernels::Cpu => Self::Kernels(Isa::detect().base()),
            Kernels::Gpu => Self::Cube,
        })
    }

    #[cfg(not(any(feature = "flex", feature = "cube")))]
    fn of_device(_: &Device) -> Result<Self, PlainReason> {
        Err(PlainReason::Backend)
    }

    /// The kernels that compute splines over a grid in f32, linear layers or convolutions, or why
    /// burn's operations do.
    pub(crate) fn of_splines(
        forced: Option<Self>,
        device: &Device,
        grid: &Grid,
    ) -> Result<Self, PlainReason> {
        #[cfg(feature = "cube")]
        if forced.is_none()
            && Self::of(device) == Self::Cube
            && let Some(reason) = super::reason::of_grid(grid)
        {
            return Err(reason);
        }
        let _ = grid;
        Self::of_any(forced, device)
    }

    /// The kernels that compute functions in closed form in f32, or why burn's operations do.
    pub(crate) fn of_basis(forced: Option<Self>, device: &Device) -> Result<Self, PlainReason> {
        match (forced, Self::of(device)) {
            (None, Self::Cube) => Err(PlainReason::Functions),
            _ => Self::of_any(forced, device),
        }
    }

    /// The form of kernels for GPUs that a path forces.
    #[cfg(feature = "cube")]
    pub(super) fn forced_form(path: Option<Self>) -> Option<CubeForm> {
        match path {
            Some(Self::CubeIn(form)) => Some(form),
            _ => None,
        }
    }

    /// The path that was picked for numbers of a dtype; reports why it is burn's operations.
    pub(super) fn for_dtype(picked: Result<Self, PlainReason>, has_kernels: bool) -> Self {
        match picked {
            Ok(path) if has_kernels => path,
            Ok(_) => Self::Plain,
            Err(reason) => {
                report(reason);
                Self::Plain
            }
        }
    }

    fn of_any(forced: Option<Self>, device: &Device) -> Result<Self, PlainReason> {
        match forced {
            Some(Self::Plain) => Err(PlainReason::Forced),
            Some(forced) => Ok(forced),
            None => Self::of_device(device),
        }
    }
}

/// Whether our kernels take a dtype; they compute in f32.
pub(super) fn is_for_kernels(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F16)
}

impl fmt::Display for LayerPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernels(isa) => write!(formatter, "kernels ({isa})"),
            Self::Cube => formatter.write_str("kernels (CubeCL)"),
            Self::CubeIn(form) => write!(formatter, "kernels (CubeCL, {form})"),
            Self::Plain => formatter.write_str("plain"),
        }
    }
}

/// The layer with products of bf16, if a batch is computed so.
#[cfg(feature = "flex")]
fn narrow(
    geometry: &LayerGeometry,
    isa: Isa,
    Parameters { base, scaler, bias, .. }: &Parameters,
    batch: usize,
) -> Option<Arc<LayerGeometry>> {
    let given = |is_there: bool| is_there.then_some(&[][..]);
    let weights = Weights {
        spline: &[],
        base: given(base.is_some()),
        scaler: given(scaler.is_some()),
        bias: given(bias.is_some()),
    };
    let geometry = geometry.clone().with_products(Products::Bf16);
    geometry.multiplies_bf16(isa, &weights, batch).then(|| Arc::new(geometry))
}

/// Computes a layer's outputs, `[batch, out_features]`, of `x`, `[batch, in_features]`.
///
/// On flex it runs our kernels, and on GPUs too if f32 resolves the grid, in f32: bf16 and f16 are
/// computed in f32 and rounded once, except that on GPUs with tensor cores their products are those
/// of [`CubeForm::ExpandedBf16`] and [`CubeForm::ExpandedF16`]. For the backward pass nothing is kept but the input
/// and the parameters.
/// Without gradients, the kernels on the CPU keep the packed weights in `cache` and read them again
/// while the parameters do not change; outputs are the same to the bit.
/// Within a scope of [`Products::Bf16`](updraft_simd::Products), the kernels on the CPU compute both
/// passes of large layers with products of bf16, where the processor is faster at them.
/// f64, other grids on GPUs, and every other backend take burn's own operations, with the same
/// result; there the bases of bf16 and f16 are computed in f32 too.
///
/// # Panics
/// If the shapes do not fit the geometry, or `path` forces kernels that the device or the
/// processor does not have, or that do not compute the grid.
#[must_use]
pub(crate) fn layer(
    x: Tensor<2>,
    parameters: Parameters,
    geometry: &Arc<LayerGeometry>,
    path: Option<LayerPath>,
    cache: &PackedCache,
) -> Tensor<2> {
    let cache = if x.is_autodiff() || parameters.spline.is_autodiff() {
        cache.clear();
        None
    } else {
        Some(cache)
    };
    #[cfg(not(feature = "flex"))]
    let _ = cache;
    let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
    let bases = geometry.grid().bases();
    assert_shape!(x, [_, inputs]);
    let Parameters { spline, base, scaler, bias } = &parameters;
    assert_shape!(spline, [inputs, bases, outputs]);
    for edges in [base, scaler].into_iter().flatten() {
        assert_shape!(edges, [inputs, outputs]);
    }
    if let Some(bias) = bias {
        assert_shape!(bias, [outputs]);
    }
    let has_kernels = path.is_some() || is_for_kernels(x.dtype());
    let picked = LayerPath::of_splines(path, &x.device(), geometry.grid());
    match LayerPath::for_dtype(picked, has_kernels) {
        LayerPath::Plain => plain::layer(x, parameters, geometry),
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            let narrow = (Products::current() == Products::Bf16)
                .then(|| narrow(geometry, isa, &parameters, x.dims()[0]))
                .flatten();
            let (geometry, cache) = match narrow {
                // Packed weights are those of products in f32.
                Some(geometry) => (geometry, None),
                None => (Arc::clone(geometry), cache),
            };
            fused::layer(x, parameters, Geometry::Linear(geometry), Some(isa), None, cache)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => panic!("the kernels need the cargo feature `flex`"),
        #[cfg(feature = "cube")]
        LayerPath::Cube | LayerPath::CubeIn(_) => {
            if let Some(reason) = super::reason::of_grid(geometry.grid()) {
                panic!("{reason}");
            }
            if x.dims()[0] == 0 {
                // There is nothing to launch, and a buffer of no bytes cannot be bound.
                return plain::layer(x, parameters, geometry);
            }
            let forced = LayerPath::forced_form(path);
            let geometry = Geometry::Linear(Arc::clone(geometry));
            fused::layer(x, parameters, geometry, None, forced, None)
        }
        #[cfg(not(feature = "cube"))]
        LayerPath::Cube | LayerPath::CubeIn(_) => {
            panic!("the kernels need the cargo feature of the device's backend")
        }
    }
}
