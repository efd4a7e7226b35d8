//! Normalization as burn's group, instance and RMS norms compute it, by operations on single numbers.

use burn::backend::ir::{
    BinaryOpIr, FloatOperationIr, NumericOperationIr, OperationIr, TensorId, TensorIr,
};

use super::reader::{Meaning, Read, Reader};
use crate::operation::{Normalize, Over};

impl Reader<'_> {
    /// `x/√(mean(x²) + ε)` along the last axis, where `x` may have its mean subtracted; `None` if the
    /// division is another one.
    pub(super) fn norm(&mut self, division: &BinaryOpIr) -> Read<Option<Meaning>> {
        let Some((x, epsilon, is_centered)) = self.normalized(division) else { return Ok(None) };
        if !matches!(self.meaning(&x)?, Meaning::Value { .. }) {
            return Ok(None);
        }
        let (value, view) = self.viewed(&x)?;
        let (shape, seen) = (self.graph.shape(value).to_vec(), view.shape());
        let name = self.numbered("norm");
        if let [groups, _] = seen[..]
            && shape[0].is_multiple_of(groups)
            && view.is_whole(shape.iter().product())
        {
            let norm = Normalize::new(epsilon, Over::Groups(groups), is_centered);
            let y = self.graph.normalized(&name, value, norm);
            let y = self.added(y)?;
            return Ok(Some(Meaning::of(y, view)));
        }
        let tokens = self.tokens(&x)?;
        let norm = Normalize::new(epsilon, Over::Pixel, is_centered);
        let y = self.graph.normalized(&name, tokens, norm);
        self.tokens_of(y).map(Some)
    }

    /// The tensor that a division normalizes, the epsilon, and whether the mean is subtracted.
    fn normalized(&self, division: &BinaryOpIr) -> Option<(TensorIr, f32, bool)> {
        use NumericOperationIr as N;

        let last = division.lhs.shape.len() - 1;
        let OperationIr::Float(_, FloatOperationIr::Sqrt(root)) = self.producer(division.rhs.id)?
        else {
            return None;
        };
        let OperationIr::NumericFloat(_, N::AddScalar(sum)) = self.producer(root.input.id)? else {
            return None;
        };
        let squares = self.mean_of(sum.lhs.id, last)?;
        let squared = match self.producer(squares.id)? {
            OperationIr::NumericFloat(_, N::Mul(both)) if both.lhs.id == both.rhs.id => both.lhs.id,
            OperationIr::Float(_, FloatOperationIr::PowfScalar(power))
                if power.rhs.elem::<f32>() == 2.0 =>
            {
                power.lhs.id
            }
            _ => return None,
        };
        if squared != division.lhs.id || self.recording.joins_batch(&division.lhs.shape) {
            return None;
        }
        let epsilon = sum.rhs.elem::<f32>();
        let centered = match self.producer(squared) {
            Some(OperationIr::NumericFloat(_, N::Sub(both))) => {
                let mean = self.mean_of(both.rhs.id, last);
                mean.filter(|of| of.id == both.lhs.id)
            }
            _ => None,
        };
        let x = centered.unwrap_or(&division.lhs);
        Some((x.clone(), epsilon, centered.is_some()))
    }

    /// The tensor whose mean along an axis a tensor is.
    fn mean_of(&self, id: TensorId, axis: usize) -> Option<&TensorIr> {
        match self.producer(id)? {
            OperationIr::NumericFloat(_, NumericOperationIr::MeanDim(mean))
                if mean.axis == axis =>
            {
                Some(&mean.input)
            }
            _ => None,
        }
    }

    /// The recorded operation that computes a tensor.
    fn producer(&self, id: TensorId) -> Option<&OperationIr> {
        let before = &self.recording.operations[..self.place.index];
        before.iter().rev().find(|operation| operation.outputs().any(|out| out.id == id))
    }
}
