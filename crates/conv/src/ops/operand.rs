//! An optional tensor of an operation.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType};

/// An optional tensor of an operation; burn's macro passes no `Option`.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(all(feature = "cube", feature = "fusion")))]
pub(crate) enum Operand<B: Backend> {
    /// It is given.
    Given(FloatTensor<B>),
    /// It is not given.
    Absent,
}

impl<B: Backend> Operand<B> {
    pub(crate) fn given(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for Operand<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::Absent, Self::Given)
    }
}
