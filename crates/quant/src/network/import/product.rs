//! `Gemm` and `MatMul` of a tensor and constant weights, or of two tensors.

use super::convolution::per_output;
use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::real::Real;
use super::weights::{Bias, FileWeights, GivenWeights};
use crate::operation::Window;

impl<'a> Importer<'a> {
    pub(super) fn product(&mut self, node: &Node<'a>) -> Read<()> {
        if node.operation == "MatMul" && matches!(self.meaning(node, 1)?, Meaning::Real(_)) {
            return self.product_of_two(node);
        }
        let x = self.input_real(node, 0)?;
        if !x.ends_with(1) || node.operation == "Gemm" && x.rank() != 2 {
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
        let mut shape = x.shape();
        let is_row = shape.len() == 1;
        let x = match is_row {
            // All numbers in the order of the value, along any axes.
            true if self.is_whole(&x) => x,
            true => self.placed(x)?,
            // Every token is a pixel.
            false => self.tokens(x)?,
        };
        let (name, reals) = (self.layer_name(), bias.reals());
        let y = match is_row {
            true => self.graph.linear(&name, x.value, &real, &reals),
            false => {
                let window = Window::new([1, 1]);
                self.graph.convolution(&name, x.value, window, 1, &real, &reals)
            }
        };
        let value = self.record(y, &[&x])?;
        self.layers[value.0].is_float = weights.is_none();
        self.layers[value.0].weights = weights;
        if is_row {
            return self.set_value(node, value, false);
        }
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let view = self.channels_last(value, &shape)?;
        self.set(node, Meaning::Real(Real { value, is_coded: false, view, ..x }))
    }

    /// A product of two tensors of matrices, in f32.
    fn product_of_two(&mut self, node: &Node<'a>) -> Read<()> {
        let [a, b] = [self.input_real(node, 0)?, self.input_real(node, 1)?];
        let is_of_matrices = a.shape().len() > 1 && a.ends_with(2) && b.ends_with(2);
        if !is_of_matrices || a.batch != b.batch || a.shape().len() != b.shape().len() {
            return self.refuse(
                "a product of two tensors must be of [batch, …, rows, depth] and \
                 [batch, …, depth, columns]",
            );
        }
        let batch = a.batch;
        let ((a, a_turned), (b, b_turned)) = (self.matrices(a)?, self.matrices(b)?);
        let mut both = [a, b];
        self.separate(&mut both)?;
        let [a, b] = &both;
        let name = self.layer_name();
        let y = self.graph.matrix_product(&name, a.value, b.value, [a_turned, b_turned]);
        let value = self.record(y, &[a, b])?;
        let y = Real::of(value, false, self.graph.shape(value));
        self.set(node, Meaning::Real(Real { batch, ..y }))
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
pub(super) fn transposed<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    let column = |column: usize| values.iter().skip(column).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}
