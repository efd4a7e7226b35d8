//! Tensors in another shape or order, and blocks of pixels.

use std::collections::HashSet;

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::{MOST_AXES, Node};
use super::real::{Batch, Real};
use super::sides::{Side, Sides};

impl<'a> Importer<'a> {
    pub(super) fn reshape(&mut self, node: &Node<'a>) -> Read<()> {
        let real = self.input_real(node, 0)?;
        let real = match node.operation {
            "Flatten" => {
                self.check_batch(&real)?;
                if node.integer("axis", 1) != 1 {
                    return self.refuse("its axis must be 1, so that the batch is kept");
                }
                let count = real.count();
                self.reshaped(real, &[count], Batch::Alone(0))?
            }
            "Squeeze" => {
                let axes = self.integers(node, 1)?;
                self.squeezed(real, &axes)?
            }
            "Unsqueeze" => self.unsqueezed(node, real)?,
            _ => {
                let target = self.integers_and_batches(node, 1)?;
                if node.integer("allowzero", 0) != 0 && target.contains(&Side::Number(0)) {
                    return self.refuse("its shape has an axis of length 0");
                }
                let (shape, batch) = self.target(&target, &real)?;
                self.reshaped(real, &shape, batch)?
            }
        };
        self.set(node, Meaning::Real(real))
    }

    /// Without axes of length 1 of the file.
    pub(super) fn squeezed(&mut self, real: Real, axes: &[i64]) -> Read<Real> {
        let (shape, rank) = (real.shape(), real.rank());
        if axes.len() > MOST_AXES {
            return self.refuse("it names more than 8 axes");
        }
        let mut removed = Vec::new();
        for &axis in axes {
            if shape[self.axis(axis, &real)?] != 1 {
                return self.refuse("an axis has another length than 1");
            }
            removed.push(self.counted(axis, rank)?);
        }
        let kept = (0..rank).filter(|axis| !removed.contains(axis)).map(Some);
        let (kept, batch) = real.batch.ordered(kept);
        let kept: Vec<usize> = kept.into_iter().flatten().map(|axis| shape[axis]).collect();
        let kept = if kept.is_empty() { vec![1] } else { kept };
        self.reshaped(real, &kept, batch)
    }

    /// With new axes of length 1.
    fn unsqueezed(&mut self, node: &Node<'a>, real: Real) -> Read<Real> {
        let axes = self.integers(node, 1)?;
        let (shape, rank) = (real.shape(), real.rank() + axes.len());
        if rank > MOST_AXES {
            return self.refuse("its shape has more than 8 axes");
        }
        let new =
            axes.iter().map(|&axis| self.counted(axis, rank)).collect::<Read<HashSet<_>>>()?;
        if new.len() != axes.len() {
            return self.refuse("it has an axis twice");
        }
        let mut own = 0..real.rank();
        let order = (0..rank).map(|axis| if new.contains(&axis) { None } else { own.next() });
        let (order, batch) = real.batch.ordered(order);
        let side = |axis: &Option<usize>| axis.map_or(1, |axis| shape[axis]);
        let shape: Vec<usize> = order.iter().map(side).collect();
        self.reshaped(real, &shape, batch)
    }

    /// The shape of a sample and the place of the batch, from a shape with sides that are kept, 0, or
    /// computed, −1.
    fn target(&self, target: &[Side], x: &Real) -> Read<(Vec<usize>, Batch)> {
        let reason = "its shape must have the batch, and as many numbers of a sample as its input";
        if target.len() > MOST_AXES {
            return self.refuse("its shape has more than 8 axes");
        }
        let (own, count) = (Sides::of_real(x).values, x.count());
        let mut sides = target.to_vec();
        for (axis, side) in sides.iter_mut().enumerate() {
            if *side == Side::Number(0) {
                let Some(&kept) = own.get(axis) else { return self.refuse(reason) };
                *side = kept;
            }
        }
        let is_of_batch = |side: &Side| matches!(side, Side::Batches(_));
        let batches = sides.iter().filter(|side| is_of_batch(side)).count();
        if batches > 1 {
            return self.refuse(reason);
        }
        let has_batch = batches == 1;
        // Of a file with a fixed batch, numbers are counted with it.
        let fixed = self.batch.filter(|_| !has_batch);
        let mut known = 1_usize;
        let mut unknown = None;
        for (axis, &side) in sides.iter().enumerate() {
            let factor = match side {
                Side::Number(-1) if unknown.is_none() => {
                    unknown = Some(axis);
                    continue;
                }
                Side::Number(side @ 1..) | Side::Batches(side @ 1..) => self.length(side)?,
                _ => return self.refuse(reason),
            };
            let Some(product) = known.checked_mul(factor) else { return self.refuse(reason) };
            known = product;
        }
        let samples = match fixed {
            Some(batch) => self.length(batch)?,
            None => 1,
        };
        let all = count.checked_mul(samples).filter(|all| all.is_multiple_of(known));
        let Some(all) = all else { return self.refuse(reason) };
        match unknown {
            Some(axis) if has_batch || fixed.is_some() => {
                sides[axis] = Side::Number((all / known) as i64);
            }
            Some(axis) => sides[axis] = Side::Batches((all / known) as i64),
            None if all != known => return self.refuse(reason),
            None => {}
        }
        self.of_sides(&sides, x, fixed)
    }

    /// The shape of a sample and the place of the batch: within as many numbers as before.
    fn of_sides(&self, sides: &[Side], x: &Real, fixed: Option<i64>) -> Read<(Vec<usize>, Batch)> {
        let before = x.before_batch();
        let place = batch_of(sides, before, fixed);
        let (mut shape, mut batch, mut passed) = (Vec::new(), None, 1_usize);
        for (at, &side) in sides.iter().enumerate() {
            let of_sample = match (side, fixed) {
                (Side::Number(side), Some(samples)) if place == Some(at) => side / samples,
                (Side::Number(side) | Side::Batches(side), _) => side,
            };
            let len = self.length(of_sample)?;
            if place == Some(at) {
                let Some(outer) = outer(before, passed, len) else {
                    return self.refuse("its shape moves numbers between samples of the batch");
                };
                if len == 1 {
                    batch = Some(Batch::Alone(shape.len()));
                    continue;
                }
                batch = Some(Batch::Joined(shape.len(), outer));
            }
            passed *= len;
            shape.push(len);
        }
        match batch {
            Some(batch) if !shape.is_empty() => Ok((shape, batch)),
            _ => self.refuse("its shape must have the batch and an axis of a sample"),
        }
    }

    /// A list of integers that is an input, and may depend on the batch.
    fn integers_and_batches(&self, node: &Node<'a>, at: usize) -> Read<Vec<Side>> {
        match self.meaning(node, at)? {
            Meaning::Sides(sides) => Ok(sides.values.clone()),
            _ => Ok(self.integers(node, at)?.into_iter().map(Side::Number).collect()),
        }
    }

    pub(super) fn transpose(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        let rank = x.rank();
        let order = match node.integers("perm") {
            Some(order) => order.to_vec(),
            None => (0..rank as i64).rev().collect(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..rank as i64) {
            return self.refuse("its `perm` must have each axis of its input once");
        }
        let (axes, batch) = x.batch.ordered(order.iter().map(|&axis| Some(axis as usize)));
        let axes: Vec<usize> = axes.into_iter().flatten().collect();
        self.set(node, Meaning::Real(Real { view: x.view.permuted(&axes), batch, ..x }))
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
        let x = self.input_real(node, 0)?;
        let axis = self.axis(node.integer("axis", -1), &x)?;
        let x = self.placed(x)?;
        let name = self.layer_name();
        let y = self.graph.softmax(&name, x.value, axis);
        let value = self.record(y, &[&x])?;
        self.set(node, Meaning::Real(Real { value, is_coded: false, ..x }))
    }
}

/// The axis that is or contains the batch, which has so many numbers of a sample before it.
fn batch_of(sides: &[Side], before: usize, fixed: Option<i64>) -> Option<usize> {
    if let Some(place) = sides.iter().position(|side| matches!(side, Side::Batches(_))) {
        return Some(place);
    }
    // Of a fixed batch: an axis of its length, or else the first one that it can be a part of.
    let (samples, mut passed, mut joined) = (usize::try_from(fixed?).ok()?, 1_usize, None);
    for (place, &side) in sides.iter().enumerate() {
        let Side::Number(side) = side else { return None };
        let side = usize::try_from(side).ok()?;
        if passed == before && side == samples {
            return Some(place);
        }
        let is_part =
            side.is_multiple_of(samples) && outer(before, passed, side / samples).is_some();
        if is_part && joined.is_none() {
            joined = Some(place);
        }
        passed = passed.checked_mul(side)?;
    }
    joined
}

/// The part of an axis of a sample that is outside of the batch, if the batch can be a part of it.
fn outer(before: usize, passed: usize, len: usize) -> Option<usize> {
    let is_inside = before.is_multiple_of(passed) && len.is_multiple_of(before / passed);
    is_inside.then(|| before / passed)
}
