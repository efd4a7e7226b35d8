//! Recording the convolutions of a forward pass.

use std::cell::RefCell;

use burn::module::ParamId;
use updraft_simd::time_layer;
#[cfg(feature = "flex")]
use updraft_simd::{Products, add_operations, times_layers};

#[cfg(feature = "flex")]
use crate::kernels::ConvShape;
use crate::kernels::{ConvGeometry, Isa, Pass, Strategy, strategy};

/// A convolution that the kernels computed for a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedConvolution {
    /// The parameter that holds the layer's weights.
    pub weight: ParamId,
    /// Whether the layer convolves transposed.
    pub is_transposed: bool,
    /// Samples.
    pub batch: usize,
    /// Input and output channels of the layer.
    pub channels: [usize; 2],
    /// The number of groups.
    pub groups: usize,
    /// Sides of the layer's input: height and width, before them depth.
    pub input: Vec<usize>,
    /// Sides of the kernel.
    pub kernel: Vec<usize>,
    /// The stride.
    pub stride: Vec<usize>,
    /// The dilation.
    pub dilation: Vec<usize>,
    geometry: Geometry,
}

/// What the kernels compute; of a transposed convolution, the convolution whose gradient it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "flex"), allow(dead_code, reason = "kernels run on flex alone"))]
enum Geometry {
    Image(ConvGeometry),
    Volume(ConvGeometry<3>),
}

impl ObservedConvolution {
    /// Floating-point operations of the forward pass; a multiplication with its addition counts two.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let operations = match &self.geometry {
            Geometry::Image(geometry) => geometry.operations(),
            Geometry::Volume(geometry) => geometry.operations(),
        };
        operations as u64
    }

    /// How the kernels compute a pass of the layer with an instruction set, and why; see
    /// [`slices::strategy`](crate::slices::strategy).
    #[must_use]
    pub fn strategy(&self, isa: Isa, pass: Pass) -> Strategy {
        let pass = match pass {
            Pass::Forward if self.is_transposed => Pass::InputGradient,
            Pass::InputGradient if self.is_transposed => Pass::Forward,
            other => other,
        };
        match &self.geometry {
            Geometry::Image(geometry) => strategy(isa, geometry, pass),
            Geometry::Volume(geometry) => strategy(isa, geometry, pass),
        }
    }
}

#[derive(Default)]
struct Observing {
    /// The weights of the layer that runs.
    layer: Option<ParamId>,
    seen: Vec<ObservedConvolution>,
}

thread_local! {
    static OBSERVED: RefCell<Option<Observing>> = const { RefCell::new(None) };
}

/// Runs a closure and returns the convolutions, transposed ones too, that the kernels computed for
/// the layers of this crate on this thread, in order; those that burn computes are omitted.
pub fn observe_convolutions<T>(run: impl FnOnce() -> T) -> (T, Vec<ObservedConvolution>) {
    let outer = OBSERVED.replace(Some(Observing::default()));
    let result = run();
    let observed = OBSERVED.replace(outer).map(|observed| observed.seen).unwrap_or_default();
    (result, observed)
}

/// Runs the convolution of the layer with these weights.
pub(crate) fn of_layer<T>(weight: ParamId, kind: &'static str, run: impl FnOnce() -> T) -> T {
    set_layer(Some(weight));
    let result = time_layer(weight.val(), kind, run);
    set_layer(None);
    result
}

fn set_layer(layer: Option<ParamId>) {
    OBSERVED.with_borrow_mut(|observed| {
        if let Some(observed) = observed {
            observed.layer = layer;
        }
    });
}

/// Records a convolution of a layer that the kernels compute.
#[cfg(feature = "flex")]
pub(super) fn note(shape: ConvShape) {
    record(shape, Geometry::Image, None);
}

/// The same of volumes.
#[cfg(feature = "flex")]
pub(super) fn note_3d(shape: ConvShape<3>) {
    record(shape, Geometry::Volume, None);
}

/// The same of a transposed convolution of images, which are volumes of one slice, or volumes.
#[cfg(feature = "flex")]
pub(super) fn note_transposed(shape: ConvShape<3>, axes: usize) {
    record(shape, Geometry::Volume, Some(axes));
}

#[cfg(feature = "flex")]
fn record<const D: usize>(
    shape: ConvShape<D>,
    of: fn(ConvGeometry<D>) -> Geometry,
    transposed_axes: Option<usize>,
) {
    let layer = OBSERVED.with_borrow(|observed| observed.as_ref().and_then(|it| it.layer));
    if layer.is_none() && !times_layers() {
        return;
    }
    let Ok(geometry) = ConvGeometry::try_new(shape) else { return };
    add_operations(geometry.operations() as u64);
    let Some(weight) = layer else { return };
    let geometry = geometry.with_products(Products::current());
    let ConvShape { batch, channels, groups, input, kernel, stride, dilation, .. } = shape;
    let (channels, input) = match transposed_axes {
        Some(_) => ([channels[1], channels[0]], geometry.output()),
        None => (channels, input),
    };
    let first = D - transposed_axes.unwrap_or(D);
    let [input, kernel, stride, dilation] =
        [input, kernel, stride, dilation].map(|sides| sides[first..].to_vec());
    let convolution = ObservedConvolution {
        weight,
        is_transposed: transposed_axes.is_some(),
        batch,
        channels,
        groups,
        input,
        kernel,
        stride,
        dilation,
        geometry: of(geometry),
    };
    OBSERVED.with_borrow_mut(|observed| {
        if let Some(observed) = observed {
            observed.seen.push(convolution);
        }
    });
}
