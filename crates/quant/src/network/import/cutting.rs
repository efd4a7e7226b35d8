//! `Slice`, `Split`, `Gather` and `Expand` of tensors: places of axes, without a layer.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::{MOST_AXES, Node};
use super::real::Real;
use super::sides::{Side, Sides};
use crate::view::Part;

/// What a name of a file takes beside its numbers, as numbers.
const NUMBERS_OF_NAME: usize = 256;

/// The most numbers of a sample with repeated axes.
const MOST: usize = 1 << 31;

impl<'a> Importer<'a> {
    pub(super) fn slice(&mut self, node: &Node<'a>) -> Read<()> {
        let mut x = self.input_real(node, 0)?;
        let (firsts, ends) = (self.integers(node, 1)?, self.integers(node, 2)?);
        let axes = match node.input(3) {
            Some(_) => self.integers(node, 3)?,
            None => (0..firsts.len() as i64).collect(),
        };
        let steps = match node.input(4) {
            Some(_) => self.integers(node, 4)?,
            None => vec![1; firsts.len()],
        };
        let count = firsts.len();
        if count > MOST_AXES || [ends.len(), axes.len(), steps.len()] != [count; 3] {
            return self.refuse("its starts, ends, axes and steps are not equally many");
        }
        for at in 0..count {
            let place = self.counted(axes[at], x.rank())?;
            let of_axis = [firsts[at], ends[at], steps[at]];
            let Some(axis) = x.batch.of_sample(place) else {
                // Exporters write an end beyond any length for all places.
                if of_axis[0] == 0 && of_axis[1] >= i64::from(i32::MAX) && of_axis[2] == 1 {
                    continue;
                }
                return self.refuse("it cuts samples out of the batch");
            };
            let [first, len, step] = self.range(x.shape()[axis], of_axis)?;
            if len == 0 {
                return self.refuse("it has no place of an axis");
            }
            x = self.cut(x, axis, first, &[Part { len, stride: step }])?;
        }
        self.set(node, Meaning::Real(x))
    }

    pub(super) fn split(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        let axis = self.axis(node.integer("axis", 0), &x)?;
        let (len, parts) = (x.shape()[axis], node.outputs.len());
        let lens = match node.input(1) {
            Some(_) => {
                let lens = self.integers(node, 1)?;
                lens.iter().map(|&len| self.length(len)).collect::<Read<Vec<_>>>()?
            }
            None if node.integer("num_outputs", parts as i64) != parts as i64 => {
                return self.refuse("its `num_outputs` is not the number of its outputs");
            }
            None => {
                // The last part may be smaller.
                let each = len.div_ceil(parts.max(1));
                (0..parts).map(|part| each.min(len.saturating_sub(part * each))).collect()
            }
        };
        if lens.len() != parts || lens.iter().sum::<usize>() != len || lens.contains(&0) {
            return self.refuse("its parts are empty, or are not the whole axis");
        }
        let mut first = 0;
        for (&name, len) in node.outputs.iter().zip(lens) {
            self.add_numbers(NUMBERS_OF_NAME)?;
            let part = self.cut(x.clone(), axis, first, &[Part { len, stride: 1 }])?;
            self.meanings.insert(name, Meaning::Real(part));
            first += len;
        }
        Ok(())
    }

    /// Places along axes that an axis is made of, or a single one, whose axis is left out.
    pub(super) fn gather(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        let place = node.integer("axis", 0);
        let axis = self.axis(place, &x)?;
        let len = x.shape()[axis];
        let Meaning::Constant(constant) = self.meaning(node, 1)? else {
            return self.refuse("its indices depend on the input; constants can be used");
        };
        let is_single = constant.shape.is_empty();
        if constant.shape.len() > 1 {
            return self.refuse("its indices must be one integer or a list");
        }
        // As integers and as places.
        self.add_numbers(constant.len().saturating_mul(4))?;
        let indices = self.integers(node, 1)?;
        let indices =
            indices.iter().map(|&index| self.index(index, len)).collect::<Read<Vec<_>>>()?;
        let Some(&first) = indices.first() else { return self.refuse("it has no index") };
        let Some(by) = parts(indices) else {
            return self.refuse("its indices decrease, or their distances do not repeat");
        };
        self.check_count(x.count() / len, &[constant.len()])?;
        let x = self.cut(x, axis, first, &by)?;
        let x = if is_single { self.squeezed(x, &[place])? } else { x };
        self.set(node, Meaning::Real(x))
    }

    /// An index that may be counted from the end.
    fn index(&self, index: i64, len: usize) -> Read<usize> {
        let index = if index < 0 { index.saturating_add(len as i64) } else { index };
        match usize::try_from(index) {
            Ok(index) if index < len => Ok(index),
            _ => self.refuse("an index is beyond its axis"),
        }
    }

    /// Axes of length 1, repeated.
    pub(super) fn expand(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        let target = match self.meaning(node, 1)? {
            Meaning::Sides(sides) => sides.values.clone(),
            _ => self.integers(node, 1)?.into_iter().map(Side::Number).collect(),
        };
        let reason = "its shape must have as many axes as its input, and repeat axes of length 1 \
                      behind the batch";
        if target.len() != x.rank() {
            return self.refuse(reason);
        }
        let mut shape = x.shape();
        for (place, &side) in target.iter().enumerate() {
            match (x.batch.of_sample(place), side) {
                (Some(axis), Side::Number(side @ 1..)) if shape[axis] == 1 => {
                    shape[axis] = self.length(side)?;
                }
                (Some(axis), Side::Number(side)) if side == 1 || side == shape[axis] as i64 => {}
                (None, Side::Number(1)) => {}
                (None, side) if Some(&side) == Sides::of_real(&x).values.get(place) => {}
                _ => return self.refuse(reason),
            }
        }
        self.check_count(1, &shape)?;
        match x.view.expanded(&shape) {
            Some(view) => self.set(node, Meaning::Real(Real { view, ..x })),
            None => self.refuse(reason),
        }
    }
}

impl Importer<'_> {
    /// Checks the numbers of a sample of a result, a product: repeated axes take no memory before a
    /// layer reads them.
    fn check_count(&self, count: usize, sides: &[usize]) -> Read<()> {
        let count = sides.iter().try_fold(count, |count, &side| count.checked_mul(side));
        match count.is_some_and(|count| count <= MOST) {
            true => Ok(()),
            false => self.refuse("its result has more than 2³¹ numbers"),
        }
    }
}

/// The axes along which places lie, behind the first one; `None` if they do not.
fn parts(mut places: Vec<usize>) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    while let [first, second, ..] = places[..] {
        let stride = second.checked_sub(first)?;
        let is_next = |pair: &[usize]| pair[1].checked_sub(pair[0]) == Some(stride);
        let len = 1 + places.windows(2).take_while(|pair| is_next(pair)).count();
        let is_run = |run: &[usize]| run.len() == len && run.windows(2).all(is_next);
        if !places.chunks(len).all(is_run) {
            return None;
        }
        parts.push(Part { len, stride });
        places = places.chunks(len).map(|run| run[0]).collect();
    }
    parts.reverse();
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_along_several_axes_are_recognized() {
        let all = |parts: &[Part]| {
            let mut places = vec![5];
            for &Part { len, stride } in parts {
                let of = |&first: &usize| (0..len).map(move |at| first + at * stride);
                places = places.iter().flat_map(of).collect();
            }
            places
        };
        let part = |len, stride| Part { len, stride };
        for axes in [
            vec![],
            vec![part(4, 3)],
            vec![part(3, 0)],
            vec![part(2, 1), part(5, 7)],
            vec![part(3, 100), part(2, 9), part(4, 2)],
            vec![part(2, 0), part(3, 1)],
        ] {
            let places = all(&axes);
            assert_eq!(parts(places.clone()).map(|parts| all(&parts)), Some(places));
        }
        assert_eq!(parts(vec![0, 1, 2, 4]), None);
        assert_eq!(parts(vec![3, 1]), None);
    }
}
