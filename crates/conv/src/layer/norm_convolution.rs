//! Convolutions next to instance or group normalizations, and of two tensors, that keep less for the
//! backward pass.

use burn::module::Param;
#[cfg(feature = "flex")]
use burn::tensor::DType;
use burn::tensor::Tensor;

use super::conv2d::Conv2d;
use super::conv3d::Conv3d;
use super::group_norm::{GroupNorm, Normalizing};
use super::instance_norm::InstanceNorm;
#[cfg(feature = "flex")]
use super::padding;
use crate::kernels::Activation;
#[cfg(feature = "flex")]
use crate::kernels::ConvShape;
#[cfg(feature = "flex")]
use crate::ops::norm_convolution::{
    self, AnyConv, convolve_joined, convolve_normalized, normalize_convolved,
};
#[cfg(feature = "flex")]
use crate::ops::of_layer;
use crate::ops::{LayerPath, join_channels};

/// A normalization whose statistics are those of each sample: [`InstanceNorm`] or [`GroupNorm`].
pub trait SampleNorm: sealed::Norm {
    /// `activation(norm(x))`, as the layer's own method.
    #[must_use]
    fn forward_activated<const D: usize>(&self, x: Tensor<D>, activation: Activation) -> Tensor<D>;
}

pub(super) mod sealed {
    use super::{Activation, LayerPath, Normalizing, Param, Tensor};

    pub trait Norm {
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn settings(&self, activation: Activation) -> Normalizing;

        fn parameters(&self) -> [&Option<Param<Tensor<1>>>; 2];

        fn channels(&self) -> usize;

        fn forced(&self) -> Option<LayerPath>;
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

            fn channels(&self) -> usize {
                self.num_channels
            }

            fn forced(&self) -> Option<LayerPath> {
                self.forced
            }
        }
    };
}

sample_norm!(InstanceNorm, num_channels);
sample_norm!(GroupNorm, num_groups);

/// The normalization as part of an operation on `x` that gives it these channels; `None` where the
/// layer's own checks or its path have to run.
#[cfg(feature = "flex")]
fn joined_norm<const D: usize>(
    norm: &impl SampleNorm,
    activation: Activation,
    (x, channels): (&Tensor<D>, usize),
    forced: Option<LayerPath>,
) -> Option<crate::ops::GroupNorm> {
    let is_usable = |vector: &Param<Tensor<1>>| is_vector(&vector.val(), channels);
    let parameters = norm.parameters();
    let joins = norm.channels() == channels
        && norm.forced() == forced
        && x.shape().num_elements() > 0
        && parameters.into_iter().flatten().all(is_usable);
    joins.then(|| norm.settings(activation).with_parameters(x, channels, parameters))
}

/// Whether a vector has the type and the length that the kernels take.
#[cfg(feature = "flex")]
fn is_vector(vector: &Tensor<1>, length: usize) -> bool {
    vector.dtype() == DType::F32 && vector.dims() == [length]
}

/// What a layer computes that its normalization is part of.
#[cfg(feature = "flex")]
const NORMALIZED: &str = "convolution with normalization";

macro_rules! norm_convolution {
    ($conv:ident, $rank:literal, $axes:literal, $pads:ident, $of:ident) => {
        impl $conv {
            /// `conv(activation(norm(x)))`, with the result of the two layers; the backward pass
            /// computes the normalized tensor again instead of keeping it.
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
                if let Some(norm) = joined_norm(norm, activation, (&x, x.dims()[1]), self.forced)
                    && let Some(conv) = self.recorded(&x, x.dims())
                {
                    let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
                    return of_layer(self.weight.id, NORMALIZED, || {
                        convolve_normalized(x, norm, weight, bias, conv)
                    });
                }
                self.forward(norm.forward_activated(x, activation))
            }

            /// `activation(norm(conv(x)))`, with the result of the two layers; the backward pass
            /// computes the convolution again instead of keeping its result. It is worth its time
            /// for convolutions of kernel size 1.
            ///
            /// # Panics
            /// As the layers.
            #[must_use]
            pub fn forward_then_normalized(
                &self,
                x: Tensor<$rank>,
                norm: &impl SampleNorm,
                activation: Activation,
            ) -> Tensor<$rank> {
                #[cfg(feature = "flex")]
                if self.bias.is_none()
                    && let outputs = self.weight.dims()[0]
                    && let Some(norm) = joined_norm(norm, activation, (&x, outputs), self.forced)
                    && let Some(conv) = self.recorded(&x, x.dims())
                {
                    let weight = self.weight.val();
                    return of_layer(self.weight.id, NORMALIZED, || {
                        normalize_convolved(x, weight, norm, conv)
                    });
                }
                norm.forward_activated(self.forward(x), activation)
            }

            /// The convolution of the channels of `a` followed by those of `b`; the backward pass
            /// does not keep them a second time.
            ///
            /// # Panics
            /// As [`forward`](Self::forward), and if the shapes differ in another axis than that of
            /// the channels.
            #[must_use]
            pub fn forward_joined(&self, a: Tensor<$rank>, b: Tensor<$rank>) -> Tensor<$rank> {
                #[cfg(feature = "flex")]
                {
                    let (mut dims, of_b) = (a.dims(), b.dims());
                    let differs = |axis: usize| axis != 1 && dims[axis] != of_b[axis];
                    let fits = !(0..$rank).any(differs) && b.dtype() == a.dtype();
                    dims[1] += of_b[1];
                    if fits
                        && self.bias.is_none()
                        && b.device() == a.device()
                        && let Some(conv) = self.recorded(&a, dims)
                    {
                        let weight = self.weight.val();
                        return of_layer(self.weight.id, "convolution", || {
                            convolve_joined([a, b], weight, conv)
                        });
                    }
                }
                self.forward(join_channels(a, b))
            }

            /// The convolution of an input of these dimensions; `None` unless a graph records the
            /// kernels of one group in f32.
            #[cfg(feature = "flex")]
            fn recorded(&self, x: &Tensor<$rank>, dims: [usize; $rank]) -> Option<AnyConv> {
                let weight = self.weight.val();
                let isa = norm_convolution::recording(self.forced, x, &weight)?;
                let Self { kernel_size, stride, dilation, .. } = *self;
                let [batch, inputs, input @ ..] = dims;
                let [outputs, own_inputs, kernel @ ..] = weight.dims();
                let pads = padding::$pads(&self.padding, input, kernel_size, stride);
                let is_even = pads.iter().all(|(before, after)| before == after);
                let has_bias = |bias: &Param<Tensor<1>>| is_vector(&bias.val(), outputs);
                let is_usable = self.bias.as_ref().is_none_or(has_bias);
                if self.groups != 1 || !is_even || inputs != own_inputs || !is_usable {
                    return None;
                }
                let padding = pads.map(|(before, _)| before);
                let shape = ConvShape::<$axes>::new(batch, [inputs, outputs], input, kernel);
                let shape = ConvShape { stride, padding, dilation, ..shape };
                Some(AnyConv::$of(shape, isa))
            }
        }
    };
}

norm_convolution!(Conv2d, 4, 2, on_both_axes, images);
norm_convolution!(Conv3d, 5, 3, on_all_axes, volumes);
