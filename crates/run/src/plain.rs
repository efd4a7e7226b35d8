//! burn's operations in place of our kernels.

use burn::tensor::Device;

/// Makes burn's own operations the default of all layers and of the optimizer in this process, in
/// place of our kernels, to compare both: call it before the first model is created.
///
/// Results are the same up to rounding.
pub fn make_plain_default() {
    updraft_conv::LayerPath::make_plain_default();
    updraft_kan::LayerPath::make_plain_default();
    updraft_optim::make_plain_default();
    updraft_transformer::plain::make_default();
}

/// Whether our kernels compute layers on a device, unless a layer says otherwise.
#[must_use]
pub fn runs_kernels(device: &Device) -> bool {
    updraft_conv::LayerPath::of(device) != updraft_conv::LayerPath::Plain
        || updraft_kan::LayerPath::of(device) != updraft_kan::LayerPath::Plain
}
