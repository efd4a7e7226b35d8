//! `Concat`: of tensors, or of a tensor and constants of each sample such as a class token.

use std::rc::Rc;

use super::constant::Constant;
use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::product::transposed;
use super::real::Real;

impl<'a> Importer<'a> {
    pub(super) fn concatenate(&mut self, node: &Node<'a>) -> Read<()> {
        for at in 0..node.inputs.len() {
            if matches!(self.meaning(node, at)?, Meaning::Constant(_) | Meaning::Coded(_)) {
                return self.joined_with_constant(node, at);
            }
        }
        let mut parts = Vec::new();
        for at in 0..node.inputs.len() {
            parts.push(self.input_placed(node, at)?);
        }
        self.separate(&mut parts)?;
        let Some(first) = parts.first() else { return self.refuse("it has no input") };
        let axis = self.axis(node.integer("axis", 1), first)?;
        let mut shape = first.shape();
        let values: Vec<_> = parts.iter().map(|part| part.value).collect();
        let name = self.layer_name();
        let y = self.graph.concatenate(&name, &values, axis);
        let reads: Vec<&Real> = parts.iter().collect();
        let y = self.record(y, &reads)?;
        shape[axis] = self.graph.shape(y)[axis];
        self.set_shaped(node, y, &shape)
    }

    /// A constant `[1, …]` before or after a tensor of two axes.
    fn joined_with_constant(&mut self, node: &Node<'a>, constant: usize) -> Read<()> {
        let reason = "a constant can be joined with one tensor of two axes for each sample; it must \
                      be [1, …] and agree with the tensor in the other axis";
        if node.inputs.len() != 2 {
            return self.refuse(reason);
        }
        let x = self.input_real(node, 1 - constant)?;
        self.check_batch(&x)?;
        let axis = self.axis(node.integer("axis", 1), &x)?;
        let Meaning::Constant(numbers) = self.in_reals(node, constant)? else {
            return self.refuse(reason);
        };
        let (mut shape, Some(reals)) = (x.shape(), numbers.reals()) else {
            return self.refuse(reason);
        };
        let (&[rows, columns], &[1, of_rows, of_columns]) = (&shape[..], &numbers.shape[..]) else {
            return self.refuse(reason);
        };
        let (fits, more) = match axis {
            0 => (columns == of_columns, of_rows),
            _ => (rows == of_rows, of_columns),
        };
        if !fits || more == 0 {
            return self.refuse(reason);
        }
        self.add_numbers(reals.len().saturating_mul(2))?;
        // Joined behind the channels: rows of a value, or columns of one whose channels are last.
        let (x, reals) = match axis {
            0 => (self.tokens_in_line(x)?, transposed(&reals, columns)),
            _ => (self.placed(x)?, reals),
        };
        let is_after = constant == 1;
        let name = self.layer_name();
        let y = self.graph.extend(&name, x.value, &reals, is_after);
        let value = self.record(y, &[&x])?;
        shape[axis] += more;
        if axis > 0 {
            return self.set_shaped(node, value, &shape);
        }
        let view = self.channels_last(value, &shape)?;
        self.set(node, Meaning::Real(Real { value, is_coded: false, view, ..x }))
    }

    /// A constant of real numbers, or of codes as their real numbers.
    fn in_reals(&mut self, node: &Node<'a>, at: usize) -> Read<Meaning<'a>> {
        Ok(match self.meaning(node, at)? {
            Meaning::Coded(coded) => {
                self.add_numbers(coded.codes.len())?;
                let reals = Constant::of_reals(&coded.codes.shape, &coded.reals());
                Meaning::Constant(Rc::new(reals))
            }
            meaning => meaning,
        })
    }
}
