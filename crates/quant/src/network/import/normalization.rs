//! `LayerNormalization` over the last axis.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::real::Real;

impl<'a> Importer<'a> {
    pub(super) fn layer_normalization(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        let shape = x.shape();
        let rank = x.rank();
        let Some(&channels) = shape.last().filter(|_| x.ends_with(1)) else {
            return self.refuse("its last axis is the batch");
        };
        if self.counted(node.integer("axis", -1), rank)? + 1 != rank {
            return self.refuse("it must be over the last axis alone");
        }
        let scale = self.numbers_of_channels(node, 1, channels)?;
        let shift = match node.input(2) {
            Some(_) => self.numbers_of_channels(node, 2, channels)?,
            None => vec![0.0; channels],
        };
        self.add_numbers(2 * channels)?;
        let x = self.tokens(x)?;
        let name = self.layer_name();
        let normal = self.graph.normalize(&name, x.value, node.real("epsilon", 1e-5));
        let normal = Real { value: self.record(normal, &[&x])?, is_coded: false, ..x };
        let name = self.layer_name();
        let y = self.graph.affine(&name, normal.value, &scale, &shift);
        let value = self.record(y, &[&normal])?;
        self.set(node, Meaning::Real(Real { value, ..normal }))
    }

    /// A constant of one number for each channel.
    fn numbers_of_channels(
        &mut self,
        node: &Node<'a>,
        at: usize,
        channels: usize,
    ) -> Read<Vec<f32>> {
        let (numbers, shape) = match self.meaning(node, at)? {
            Meaning::Constant(constant) => {
                self.add_numbers(constant.len())?;
                (constant.reals(), constant.shape.clone())
            }
            Meaning::Coded(coded) => {
                self.add_numbers(coded.codes.len())?;
                (Some(coded.reals()), coded.codes.shape.clone())
            }
            _ => return self.refuse("its scale and bias must be constants"),
        };
        match numbers {
            Some(numbers) if shape == [channels] => Ok(numbers),
            _ => self.refuse("its scale and bias must have one float for each place of its axis"),
        }
    }
}
