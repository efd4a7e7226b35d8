//! Initialization of parameters when a network is created.

use burn::tensor::{Tensor, TensorData};
use updraft_conv::Conv2d;
pub(crate) use updraft_conv::initialize_parameters;

/// The same convolution with first filters that pass the input's channels through.
///
/// Filter `i` is 1 at the center of channel `i`, and 0 elsewhere, for every channel of the input
/// that has an output channel; further filters keep their values. A deep stack of such
/// convolutions begins closer to the identity, without additions.
///
/// # Panics
/// If the convolution has groups, or a kernel with an even side.
///
/// # Source
/// Zagoruyko and Komodakis 2017, arXiv:1706.00388; partially, for wider outputs, Jordan 2024,
/// arXiv:2404.00498, section 3.3.
#[must_use]
pub fn with_partial_identity(mut convolution: Conv2d) -> Conv2d {
    let [height, width] = convolution.kernel_size;
    assert!(convolution.groups == 1, "a partial identity needs a convolution without groups");
    assert!(height % 2 == 1 && width % 2 == 1, "a kernel of {height} × {width} has no center");
    let weight = convolution.weight.map(|weight| {
        let weight = weight.detach();
        let [output, input, ..] = weight.dims();
        let passed = output.min(input);
        let taps = height * width;
        let mut values = vec![0.0_f32; passed * input * taps];
        for channel in 0..passed {
            values[(channel * input + channel) * taps + taps / 2] = 1.0;
        }
        let data = TensorData::new(values, [passed, input, height, width]);
        let identity = Tensor::from_data(data, (&weight.device(), weight.dtype()));
        weight.slice_assign([0..passed, 0..input, 0..height, 0..width], identity).detach()
    });
    convolution.weight = weight.set_require_grad(true);
    convolution
}

#[cfg(test)]
mod tests {
    use burn::nn::PaddingConfig2d;
    use burn::nn::conv::Conv2dConfig;
    use updraft_testing::{Numbers, assert_close, autodiff_devices, devices, tolerance};

    use super::*;

    #[test]
    fn channels_pass_through_and_further_filters_stay() {
        for device in devices().into_iter().chain(autodiff_devices()) {
            for (input, output) in [(3, 5), (4, 4), (5, 2)] {
                let config = Conv2dConfig::new([input, output], [3, 5])
                    .with_padding(PaddingConfig2d::Explicit(1, 2, 1, 2))
                    .with_bias(false);
                let plain = Conv2d::new(&config, &device);
                let drawn = plain.weight.val().numbers();
                let convolution = with_partial_identity(plain);
                let passed = input.min(output);
                let taps = input * 15;
                let weights = convolution.weight.val().numbers();
                assert_eq!(weights[passed * taps..], drawn[passed * taps..]);
                let maps = Tensor::<4>::random([2, input, 4, 6], Default::default(), &device);
                let found = convolution.forward(maps.clone()).narrow(1, 0, passed);
                assert_close(&found, &maps.narrow(1, 0, passed), tolerance::F32);
                assert_eq!(convolution.weight.is_require_grad(), device.is_autodiff());
            }
        }
    }

    #[test]
    #[should_panic(expected = "a kernel of 2 × 3 has no center")]
    fn a_kernel_without_a_center_is_refused() {
        let device = burn::tensor::Device::flex();
        let _ = with_partial_identity(Conv2d::new(&Conv2dConfig::new([1, 1], [2, 3]), &device));
    }
}
