//! Convolutions beside normalizations of single samples, and of two tensors, in less memory.

use burn::module::Param;
use burn::tensor::Tensor;

use super::conv2d::Conv2d;
use super::conv3d::Conv3d;
use super::group_norm::{GroupNorm, Normalizing};
use super::instance_norm::InstanceNorm;
#[cfg(feature = "flex")]
use super::padding;
use crate::kernels::Activation;
#[cfg(feature = "flex")]
use crate::ops::{beside, of_layer};

/// A normalization of single samples: [`InstanceNorm`] or [`GroupNorm`].
pub trait SampleNorm: sealed::Norm {
    /// `activation(norm(x))`, as the layer's own method.
    #[must_use]
    fn forward_activated<const D: usize>(&self, x: Tensor<D>, activation: Activation) -> Tensor<D>;
}

pub(super) mod sealed {
    use super::{Activation, Normalizing, Param, Tensor};

    pub trait Norm {
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn settings(&self, activation: Activation) -> Normalizing;

        fn parameters(&self) -> [&Option<Param<Tensor<1>>>; 2];
    }
}

macro_rules! sample_norm {
    ($norm:ident, $groups:ident) => {
        impl SampleNorm for $norm {
            fn forward_activated<const D: usize>(
                &self,
                x: Tensor<D>,
                activation: Activation,
            ) -> Tensor<D> {
                Self::forward_activated(self, x, activation)
            }
        }

        impl sealed::Norm for $norm {
            #[expect(private_interfaces, reason = "the trait is sealed")]
            fn settings(&self, activation: Activation) -> Normalizing {
                Normalizing { groups: self.$groups, epsilon: self.epsilon, activation }
            }

            fn parameters(&self) -> [&Option<Param<Tensor<1>>>; 2] {
                [&self.gamma, &self.beta]
            }
        }
    };
}

sample_norm!(InstanceNorm, num_channels);
sample_norm!(GroupNorm, num_groups);

macro_rules! beside {
    ($conv:ident, $rank:literal, $axes:literal, $pads:ident, $of:ident) => {
        impl $conv {
            /// `conv(activation(norm(x)))`, as the two layers compute it; a graph keeps `x` and no
            /// normalized tensor, which the backward pass computes again.
            ///
            /// # Panics
            /// As the layers.
            #[must_use]
            pub fn forward_normalized(
                &self,
                x: Tensor<$rank>,
                norm: &impl SampleNorm,
                activation: Activation,
            ) -> Tensor<$rank> {
                #[cfg(feature = "flex")]
                if let Some(conv) = self.recording(&x, x.dims()) {
                    let norm = norm.settings(activation).with(&x, norm.parameters());
                    let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
                    return beside::convolve_normalized(x, norm, weight, bias, conv);
                }
                self.forward(norm.forward_activated(x, activation))
            }

            /// `activation(norm(conv(x)))`, as the two layers compute it; a graph keeps `x` and not
            /// the convolution's result, which the backward pass computes again. This is for
            /// convolutions of kernel size 1.
            ///
            /// # Panics
            /// As the layers.
            #[must_use]
            pub fn forward_then(
                &self,
                x: Tensor<$rank>,
                norm: &impl SampleNorm,
                activation: Activation,
            ) -> Tensor<$rank> {
                #[cfg(feature = "flex")]
                if self.bias.is_none()
                    && let Some(conv) = self.recording(&x, x.dims())
                {
                    let outputs = self.weight.dims()[0];
                    let norm = norm.settings(activation).of(&x, outputs, norm.parameters());
                    let weight = self.weight.val();
                    return beside::normalize_convolved(x, weight, norm, conv);
                }
                norm.forward_activated(self.forward(x), activation)
            }

            /// The convolution of the channels of `a` followed by those of `b`; a graph does not
            /// keep them a second time.
            ///
            /// # Panics
            /// As [`forward`](Self::forward), and if the shapes differ in another axis than that of
            /// the channels.
            #[must_use]
            pub fn forward_joined(&self, a: Tensor<$rank>, b: Tensor<$rank>) -> Tensor<$rank> {
                #[cfg(feature = "flex")]
                {
                    let mut dims = a.dims();
                    dims[1] += b.dims()[1];
                    if self.bias.is_none()
                        && b.device().is_autodiff()
                        && let Some(conv) = self.recording(&a, dims)
                    {
                        let weight = self.weight.val();
                        return beside::convolve_joined([a, b], weight, conv);
                    }
                }
                self.forward(Tensor::cat(vec![a, b], 1))
            }

            /// The convolution of an input of these sides, if kernels of one group compute it on a
            /// graph.
            #[cfg(feature = "flex")]
            fn recording(
                &self,
                x: &Tensor<$rank>,
                dims: [usize; $rank],
            ) -> Option<beside::AnyConv> {
                let isa = beside::recording(self.forced, x, &self.weight.val())?;
                let Self { kernel_size, stride, dilation, .. } = *self;
                let input: [usize; $axes] = std::array::from_fn(|axis| dims[2 + axis]);
                let padding = padding::$pads(&self.padding, input, kernel_size, stride);
                let is_even = padding.iter().all(|(before, after)| before == after);
                if self.groups != 1 || !is_even || dims[1] != self.weight.dims()[1] {
                    return None;
                }
                let padding = padding.map(|(before, _)| before);
                let weight = self.weight.val();
                let settings = beside::Settings { stride, padding, dilation };
                // Noted as the layer's.
                Some(of_layer(self.weight.id, || beside::$of(dims, &weight, settings, isa)))
            }
        }
    };
}

beside!(Conv2d, 4, 2, on_both_axes, of_images);
beside!(Conv3d, 5, 3, on_all_axes, of_volumes);
