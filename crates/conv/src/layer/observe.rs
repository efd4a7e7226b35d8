//! Recording the convolutions of a forward pass.

use std::cell::RefCell;

use burn::module::ParamId;
use burn::tensor::ops::ConvOptions;

use crate::kernels::ConvShape;

/// A convolution that a layer computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedConvolution {
    /// The parameter that holds the layer's weights.
    pub weight: ParamId,
    /// Its shape, which a [`strategy`](crate::slices::strategy) is chosen for.
    pub shape: ConvShape,
}

thread_local! {
    static OBSERVED: RefCell<Option<Vec<ObservedConvolution>>> = const { RefCell::new(None) };
}

/// Runs a closure and returns the convolutions that the layers of this crate computed on this
/// thread, in order; those with asymmetric padding are computed by burn and omitted.
pub fn observe_convolutions<T>(run: impl FnOnce() -> T) -> (T, Vec<ObservedConvolution>) {
    let outer = OBSERVED.replace(Some(Vec::new()));
    let result = run();
    let observed = OBSERVED.replace(outer).unwrap_or_default();
    (result, observed)
}

/// Records a convolution of `x`, `[batch, channels, height, width]`, inside
/// [`observe_convolutions`].
pub(super) fn note(weight: ParamId, x: [usize; 4], kernel: [usize; 4], options: &ConvOptions<2>) {
    OBSERVED.with_borrow_mut(|observed| {
        let Some(observed) = observed else { return };
        if options.padding.iter().any(|(before, after)| before != after) {
            return;
        }
        let [batch, inputs, height, width] = x;
        let [outputs, _, kernel_height, kernel_width] = kernel;
        let shape = ConvShape {
            batch,
            channels: [inputs, outputs],
            groups: options.groups,
            input: [height, width],
            kernel: [kernel_height, kernel_width],
            stride: options.stride,
            padding: options.padding.map(|(before, _)| before),
            dilation: options.dilation,
        };
        observed.push(ObservedConvolution { weight, shape });
    });
}
