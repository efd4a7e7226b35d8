//! `Conv` and `BatchNormalization`.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::weights::{FileWeights, GivenWeights};
use super::window::pair;

impl<'a> Importer<'a> {
    pub(super) fn convolution(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_placed(node, 0)?;
        let FileWeights { shape, real, codes } = self.weights(node, 0)?;
        let Some((&[outputs, _], kernel)) = shape.split_first_chunk::<2>() else {
            return self.refuse("its weights must be [outputs, inputs / group, …]");
        };
        if real.is_empty()
            || node.integers("kernel_shape").is_some_and(|of_node| {
                !of_node.iter().map(|&side| side as usize).eq(kernel.iter().copied())
            })
        {
            return self.refuse("its `kernel_shape` is another than that of its weights, or empty");
        }
        self.add_numbers(real.len())?;
        let groups = self.length(node.integer("group", 1))?;
        let shape_of_x = x.shape();
        let sides = shape_of_x.get(1..).unwrap_or_default();
        let placed = self.window(node, sides, kernel, true)?;
        let kernel = pair(kernel, 1);
        let bias = self.bias(node, 2, outputs)?;
        let real = self.extended(real, kernel, &placed)?;
        let weights = match codes {
            None => None,
            Some((values, scales)) => {
                let values = self.extended(values, kernel, &placed)?;
                let scales = per_output(scales, outputs);
                Some(GivenWeights { values, scales, bias: bias.clone() })
            }
        };
        let name = self.layer_name();
        let reals = bias.reals();
        let y = self.graph.convolution(&name, x.value, placed.window, groups, &real, &reals);
        let y = self.record(y, &[&x])?;
        self.layers[y.0].is_float = weights.is_none();
        self.layers[y.0].weights = weights;
        self.set_value(node, y, false)
    }

    pub(super) fn batch_normalization(&mut self, node: &Node<'a>) -> Read<()> {
        if node.integer("training_mode", 0) != 0 {
            return self.refuse("it normalizes by its batch; export the model in evaluation mode");
        }
        let x = self.input_placed(node, 0)?;
        let mut parameters = Vec::new();
        for at in 1..5 {
            let meaning = self.meaning(node, at)?;
            self.add_numbers(match &meaning {
                Meaning::Constant(constant) => constant.len(),
                Meaning::Coded(coded) => coded.codes.len(),
                _ => 0,
            })?;
            parameters.push(match meaning {
                Meaning::Constant(constant) => constant.reals(),
                Meaning::Coded(coded) => Some(coded.reals()),
                _ => None,
            });
        }
        let Some(parameters) = parameters.into_iter().collect::<Option<Vec<_>>>() else {
            return self.refuse("its parameters must be constants of type float");
        };
        let name = self.layer_name();
        let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|at| parameters[at].as_slice());
        let epsilon = f64::from(node.real("epsilon", 1e-5));
        let y = self.graph.batch_norm(&name, x.value, gamma, beta, mean, variance, epsilon);
        let y = self.record(y, &[&x])?;
        self.set_shaped(node, y, &x.shape())
    }
}

/// One scale for each output.
pub(super) fn per_output(scales: Vec<f32>, outputs: usize) -> Vec<f32> {
    if let [scale] = scales[..] {
        return vec![scale; outputs];
    }
    scales
}
