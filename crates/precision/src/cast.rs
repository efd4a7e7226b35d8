//! Narrow copies of parameters for computation; gradients are those of the f32 parameters.

use burn::module::{Module, Param, Reparameterization, Reparameterizer};
use burn::tensor::{FloatDType, Tensor};

use crate::islands::Islands;

/// Returns a parameter in another dtype: `val() = cast(base)`.
#[derive(Module, Debug)]
pub(crate) struct CastTo {
    #[module(skip)]
    narrow: Narrow,
}

/// The dtypes of computation; a module field must be cloneable plain data.
#[derive(Debug, Clone, Copy)]
enum Narrow {
    F64,
    F32,
    Flex32,
    F16,
    Bf16,
}

impl Narrow {
    fn dtype(self) -> FloatDType {
        match self {
            Self::F64 => FloatDType::F64,
            Self::F32 => FloatDType::F32,
            Self::Flex32 => FloatDType::Flex32,
            Self::F16 => FloatDType::F16,
            Self::Bf16 => FloatDType::BF16,
        }
    }
}

impl From<FloatDType> for Narrow {
    fn from(dtype: FloatDType) -> Self {
        match dtype {
            FloatDType::F64 => Self::F64,
            FloatDType::F32 => Self::F32,
            FloatDType::Flex32 => Self::Flex32,
            FloatDType::F16 => Self::F16,
            FloatDType::BF16 => Self::Bf16,
        }
    }
}

impl Reparameterization for CastTo {
    const NAME: &'static str = "cast";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        base.cast(self.narrow.dtype())
    }
}

/// Attaches [`CastTo`] to every parameter that is not an island.
pub(crate) struct Autocast {
    narrow: Narrow,
    islands: Islands,
}

impl Autocast {
    pub(crate) fn new(compute: FloatDType, islands: Islands) -> Self {
        Self { narrow: compute.into(), islands }
    }
}

impl Reparameterizer for Autocast {
    type Reparam = CastTo;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<CastTo>) {
        let cast = (!self.islands.contains(path)).then_some(CastTo { narrow: self.narrow });
        (param, cast)
    }
}
