//! `Pad` with zeros.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::{MOST_AXES, Node};

impl<'a> Importer<'a> {
    pub(super) fn pad(&mut self, node: &Node<'a>) -> Read<()> {
        if node.text("mode", "constant") != "constant" {
            return self.refuse("its mode must be constant; others repeat numbers of the input");
        }
        let x = self.input_placed(node, 0)?;
        let (pads, rank) = (self.integers(node, 1)?, x.rank());
        let axes = match node.input(3) {
            Some(_) => self.integers(node, 3)?,
            None => (0..rank as i64).collect(),
        };
        if axes.len() > MOST_AXES || pads.len() != 2 * axes.len() {
            return self.refuse("its pads must be one before and one after each axis");
        }
        self.check_zero(node)?;
        let (firsts, lasts) = pads.split_at(axes.len());
        let (mut before, mut after) = (vec![0; rank - 1], vec![0; rank - 1]);
        for ((&axis, &first), &last) in axes.iter().zip(firsts).zip(lasts) {
            match x.batch.of_sample(self.counted(axis, rank)?) {
                Some(axis) => {
                    before[axis] = self.length(first)?;
                    after[axis] = self.length(last)?;
                }
                None if [first, last] == [0, 0] => {}
                None => return self.refuse("it adds samples to the batch"),
            }
        }
        let name = self.layer_name();
        let y = self.graph.pad(&name, x.value, &before, &after);
        let y = self.record(y, &[&x])?;
        self.set_value(node, y, x.is_coded)
    }

    /// Checks that the number that is added is 0, which each scheme has a code for.
    fn check_zero(&self, node: &Node<'a>) -> Read<()> {
        let number = match node.input(2) {
            None => return Ok(()),
            Some(_) => match self.meaning(node, 2)? {
                Meaning::Constant(constant) => constant.reals(),
                Meaning::Coded(coded) => Some(coded.reals()),
                _ => None,
            },
        };
        match number.as_deref() {
            Some(&[0.0]) => Ok(()),
            _ => self.refuse("its constant must be 0; other numbers may have no code"),
        }
    }
}
