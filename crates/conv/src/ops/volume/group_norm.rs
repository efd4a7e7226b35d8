//! Group and instance normalization.

use burn::tensor::{Tensor, assert_shape};
use updraft_simd::mark_plain;

use crate::kernels::Activation;
use crate::ops::normalization::wide;
use crate::ops::path::LayerPath;
use crate::ops::plain;

/// Normalizes groups of channels of each sample by their own statistics, then activates:
/// `activation((x − mean)/√(variance + ε)·γ + β)`. As many groups as channels make it instance
/// normalization.
///
/// On flex it runs our kernels, in one pass over memory where a group fits into a cache, in f32:
/// bf16 and f16 are computed in f32 and rounded once. f64 and every other backend use burn's own
/// operations, with the same result.
///
/// # Shapes
/// - `x`: `[batch, channels, ...]`
/// - `gamma`, `beta`: `[channels]`
///
/// # Panics
/// If the shapes do not match, the groups do not divide the channels, or a channel has no numbers.
///
/// # Source
/// Wu and He 2018, arXiv:1803.08494; Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.
pub fn group_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    groups: usize,
    epsilon: f64,
    activation: Activation,
) -> Tensor<D> {
    group_norm_by(
        x,
        None,
        GroupNorm { parameters: [gamma, beta], groups, epsilon, activation },
        None,
    )
}

/// γ and β of a group normalization with its settings.
#[derive(Debug, Clone)]
pub(crate) struct GroupNorm {
    pub(crate) parameters: [Tensor<1>; 2],
    pub(crate) groups: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
}

/// [`group_norm`] with a residual that is added before the activation.
pub(crate) fn group_norm_by<const D: usize>(
    x: Tensor<D>,
    residual: Option<Tensor<D>>,
    norm: GroupNorm,
    forced: Option<LayerPath>,
) -> Tensor<D> {
    let GroupNorm { parameters, groups, epsilon, activation } = norm;
    assert!(D >= 3, "group norm: x has axes behind batch and channels");
    let dims = x.dims();
    let channels = dims[1];
    if let Some(residual) = &residual {
        assert_eq!(residual.dims(), dims, "group norm: the residual is as large as x");
        assert_eq!(residual.dtype(), x.dtype(), "group norm: the dtypes of input and residual");
    }
    for vector in &parameters {
        assert_shape!(vector, [channels]);
    }
    let divides = groups > 0 && channels.is_multiple_of(groups);
    assert!(divides, "group norm: {groups} groups do not divide {channels} channels");
    let numbers = dims[1..].iter().product::<usize>();
    assert!(numbers > 0, "group norm: a channel without numbers has no statistics");
    let dtype = x.dtype();
    match LayerPath::picked(forced, &x.device(), dtype) {
        LayerPath::Plain | LayerPath::Cube => {
            mark_plain();
            let compute = wide(dtype);
            let batch = dims[0];
            let x = x.cast(compute).reshape([batch, groups, numbers / groups]);
            let x = x.clone() - x.mean_dim(2);
            let variance = x.clone().square().mean_dim(2);
            let x = (x / variance.add_scalar(epsilon).sqrt()).reshape(dims);
            let mut of_channel = [1; D];
            of_channel[1] = channels;
            let [gamma, beta] = parameters.map(|vector| vector.cast(compute).reshape(of_channel));
            let x = x * gamma + beta;
            let x = match residual {
                Some(residual) => x + residual.cast(compute),
                None => x,
            };
            plain::activate(x, activation).cast(dtype)
        }
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            use burn::backend::Dispatch;
            use burn::tensor::FloatDType;

            use super::extension::{GroupNormSpec, VolumeBackend};
            use crate::ops::extension::Operand;

            let spec = GroupNormSpec { groups, epsilon, activation, isa };
            let single = |tensor: Tensor<D>| tensor.cast(FloatDType::F32).into_dispatch();
            let (x, residual) = (single(x), Operand::from(residual.map(single)));
            let [gamma, beta] =
                parameters.map(|vector| vector.cast(FloatDType::F32).into_dispatch());
            let (y, ..) = Dispatch::group_normalization(x, gamma, beta, residual, spec);
            Tensor::<D>::from_dispatch(y).cast(dtype)
        }
        #[cfg(not(feature = "flex"))]
        LayerPath::Kernels(_) => unreachable!("kernels are picked where they are compiled"),
    }
}
