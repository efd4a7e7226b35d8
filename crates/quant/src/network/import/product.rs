//! `Gemm` and `MatMul` of a tensor and constant weights.

use super::convolution::per_output;
use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::weights::{Bias, FileWeights, GivenWeights};

impl<'a> Importer<'a> {
    pub(super) fn product(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        if x.shape.len() != 1 {
            return self.refuse("it must read [batch, features]; flatten its input before");
        }
        let is_plain = node.integer("transA", 0) == 0
            && [node.real("alpha", 1.0), node.real("beta", 1.0)] == [1.0, 1.0];
        if !is_plain {
            return self.refuse("`alpha` and `beta` must be 1, and `transA` must be 0");
        }
        let is_transposed = node.operation == "Gemm" && node.integer("transB", 0) != 0;
        let axis = usize::from(!is_transposed);
        let FileWeights { shape, real, codes } = self.weights(node, axis)?;
        let &[rows, columns] = &shape[..] else {
            return self.refuse("its weights must be a matrix");
        };
        let outputs = if is_transposed { rows } else { columns };
        if real.is_empty() {
            return self.refuse("its weights are empty");
        }
        self.add_numbers(real.len())?;
        let bias = match node.operation {
            "Gemm" => self.summand(node, outputs)?,
            _ => self.bias(node, usize::MAX, outputs)?,
        };
        let real = if is_transposed { real } else { transposed(&real, columns) };
        let weights = codes.map(|(values, scales)| {
            let values = if is_transposed { values } else { transposed(&values, columns) };
            GivenWeights { values, scales: per_output(scales, outputs), bias: bias.clone() }
        });
        let name = self.layer_name();
        let y = self.graph.linear(&name, x.value, &real, &bias.reals());
        let y = self.record(y, &[&x])?;
        self.layers[y.0].is_float = weights.is_none();
        self.layers[y.0].weights = weights;
        self.set_value(node, y, false)
    }
}

impl<'a> Importer<'a> {
    /// The constant that `Gemm` adds to every row: one number, or one for each output.
    fn summand(&self, node: &Node<'a>, outputs: usize) -> Read<Bias> {
        if node.input(2).is_none() {
            return self.bias(node, 2, outputs);
        }
        let shape = match self.meaning(node, 2)? {
            Meaning::Constant(constant) => constant.shape.clone(),
            Meaning::Coded(coded) => coded.codes.shape.clone(),
            _ => return self.refuse("its summand depends on the input; constants can be used"),
        };
        match shape[..] {
            [] | [1] | [1, 1] => Ok(self.bias(node, 2, 1)?.repeated(outputs)),
            [count] | [1, count] if count == outputs => self.bias(node, 2, outputs),
            _ => self.refuse("its summand must be one number, [outputs] or [1, outputs]"),
        }
    }
}

/// The transpose of a matrix with so many columns.
fn transposed<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    let column = |column: usize| values.iter().skip(column).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}
