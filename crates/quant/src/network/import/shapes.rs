//! Tensors in another shape or order, joined tensors, and blocks of pixels.

use super::error::Read;
use super::importer::{Importer, Meaning, Real};
use super::message::{MOST_AXES, Node};

impl<'a> Importer<'a> {
    /// A value whose shape in the graph is that of the file; channels alone may have axes of length
    /// 1 behind them.
    pub(super) fn placed(&mut self, mut real: Real) -> Read<Real> {
        let own = self.graph.shape(real.value);
        let is_column = real.shape.len() == 1
            && own.first() == real.shape.first()
            && own[1..].iter().all(|&side| side == 1);
        if own == real.shape || is_column {
            return Ok(real);
        }
        let count = own.iter().product();
        let name = self.layer_name();
        let value = self.graph.rearrange(&name, real.value, &real.shape, &[[count, 1]], 0);
        real.value = self.record(value, &[&real])?;
        Ok(real)
    }

    pub(super) fn input_placed(&mut self, node: &Node<'a>, at: usize) -> Read<Real> {
        let real = self.input_real(node, at)?;
        self.placed(real)
    }

    pub(super) fn reshape(&mut self, node: &Node<'a>) -> Read<()> {
        let mut real = self.input_real(node, 0)?;
        let count: usize = real.shape.iter().product();
        real.shape = match node.operation {
            "Flatten" => {
                if node.integer("axis", 1) != 1 {
                    return self.refuse("its axis must be 1, so that the batch is kept");
                }
                vec![count]
            }
            "Squeeze" => {
                let axes = self.integers(node, 1)?;
                let axes = axes.iter().map(|&axis| self.axis(axis, real.shape.len()));
                let axes = axes.collect::<Read<Vec<_>>>()?;
                if axes.iter().any(|&axis| real.shape[axis] != 1) {
                    return self.refuse("an axis has another length than 1");
                }
                let sides = real.shape.iter().enumerate();
                let kept: Vec<usize> =
                    sides.filter(|(axis, _)| !axes.contains(axis)).map(|(_, &side)| side).collect();
                if kept.is_empty() { vec![1] } else { kept }
            }
            _ => {
                let target = self.integers(node, 1)?;
                self.target(&target, &real.shape, count)?
            }
        };
        self.set(node, Meaning::Real(real))
    }

    /// The shape of a sample, from that of a batch with places that are kept, 0, or computed, −1.
    fn target(&self, target: &[i64], shape: &[usize], count: usize) -> Read<Vec<usize>> {
        let reason = "its shape must be [batch, …], with as many numbers of a sample as its input";
        let Some((&batch, sides)) = target.split_first() else { return self.refuse(reason) };
        if target.len() > MOST_AXES {
            return self.refuse("its shape has more than 8 axes");
        }
        let is_computed = batch == -1;
        if !(is_computed || batch == 0 || self.batch == Some(batch)) || sides.is_empty() {
            return self.refuse(reason);
        }
        let mut result = Vec::new();
        let mut unknown = None;
        for (axis, &side) in sides.iter().enumerate() {
            result.push(match side {
                0 if axis < shape.len() => shape[axis],
                -1 if unknown.is_none() && !is_computed => {
                    unknown = Some(axis);
                    1
                }
                1.. => self.length(side)?,
                _ => return self.refuse(reason),
            });
        }
        let known = result.iter().try_fold(1_usize, |product, &side| product.checked_mul(side));
        match (known, unknown) {
            (Some(known), Some(axis)) if known > 0 && count.is_multiple_of(known) => {
                result[axis] = count / known;
                Ok(result)
            }
            (Some(known), None) if known == count => Ok(result),
            _ => self.refuse(reason),
        }
    }

    pub(super) fn concatenate(&mut self, node: &Node<'a>) -> Read<()> {
        let mut parts = Vec::new();
        for at in 0..node.inputs.len() {
            parts.push(self.input_placed(node, at)?);
        }
        self.separate(&mut parts)?;
        let axes = parts.first().map_or(0, |part| part.shape.len());
        let axis = self.axis(node.integer("axis", 1), axes)?;
        let values: Vec<_> = parts.iter().map(|part| part.value).collect();
        let name = self.layer_name();
        let y = self.graph.concatenate(&name, &values, axis);
        let reads: Vec<&Real> = parts.iter().collect();
        let y = self.record(y, &reads)?;
        let mut shape = parts[0].shape.clone();
        shape[axis] = self.graph.shape(y)[axis];
        self.set_shaped(node, y, shape)
    }

    pub(super) fn transpose(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        let rank = 1 + x.shape.len();
        let order = match node.integers("perm") {
            Some(order) => order.to_vec(),
            None => (0..rank as i64).rev().collect(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if order.first() != Some(&0) || !sorted.into_iter().eq(0..rank as i64) {
            return self.refuse("it must keep the batch as the first axis");
        }
        let stride = |axis: usize| x.shape[axis + 1..].iter().product::<usize>();
        let axes: Vec<[usize; 2]> = order[1..]
            .iter()
            .map(|&axis| axis as usize - 1)
            .map(|axis| [x.shape[axis], stride(axis)])
            .collect();
        let shape: Vec<usize> = axes.iter().map(|&[side, _]| side).collect();
        let name = self.layer_name();
        let y = self.graph.rearrange(&name, x.value, &shape, &axes, 0);
        let y = self.record(y, &[&x])?;
        self.set_value(node, y, x.is_coded)
    }

    pub(super) fn depth_to_space(&mut self, node: &Node<'a>) -> Read<()> {
        if node.text("mode", "DCR") != "DCR" {
            return self.refuse("its mode must be DCR");
        }
        let x = self.input_placed(node, 0)?;
        let block = self.length(node.integer("blocksize", 0))?;
        let name = self.layer_name();
        let y = self.graph.depth_to_space(&name, x.value, block);
        let y = self.record(y, &[&x])?;
        self.set_value(node, y, x.is_coded)
    }

    pub(super) fn softmax(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_placed(node, 0)?;
        let axis = self.axis(node.integer("axis", -1), x.shape.len())?;
        let name = self.layer_name();
        let y = self.graph.softmax(&name, x.value, axis);
        let y = self.record(y, &[&x])?;
        self.set_shaped(node, y, x.shape)
    }
}
