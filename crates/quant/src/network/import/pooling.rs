//! Maximum and average pooling, of windows and of whole images.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::real::Real;
use super::window::pair;
use crate::kernels::Pooling;
use crate::operation::Window;

impl<'a> Importer<'a> {
    pub(super) fn pool(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_placed(node, 0)?;
        let shape = x.shape();
        let sides = shape.get(1..).unwrap_or_default();
        let kernel = self.lengths(node, "kernel_shape", sides.len(), 0)?;
        let is_ceiled = node.integer("ceil_mode", 0) != 0;
        let pooling = match (node.operation, node.integer("count_include_pad", 0)) {
            ("MaxPool", _) => Pooling::Maximum,
            (_, 0) => Pooling::MeanOfImage,
            _ if is_ceiled => {
                return self.refuse("it counts padding and is rounded up (`ceil_mode`)");
            }
            _ => Pooling::MeanWithPadding,
        };
        let window = self.window(node, sides, &kernel, false)?.window;
        self.pooled(node, &x, window, pooling)
    }

    fn pooled(&mut self, node: &Node<'a>, x: &Real, window: Window, pooling: Pooling) -> Read<()> {
        let name = self.layer_name();
        let y = self.graph.pool(&name, x.value, window, pooling);
        let y = self.record(y, &[x])?;
        // A maximum of codes is one of them.
        self.set_value(node, y, x.is_coded && pooling == Pooling::Maximum)
    }

    /// One number for each channel.
    pub(super) fn pool_images(&mut self, node: &Node<'a>) -> Read<()> {
        if node.operation == "ReduceMean" {
            return self.mean(node);
        }
        let x = self.input_placed(node, 0)?;
        let shape = x.shape();
        let sides = shape.get(1..).unwrap_or_default();
        if !(1..=2).contains(&sides.len()) {
            return self.refuse("it must read images or lines");
        }
        let pooling = match node.operation {
            "GlobalMaxPool" => Pooling::Maximum,
            _ => Pooling::MeanOfImage,
        };
        self.pooled(node, &x, Window::new(pair(sides, 1)), pooling)
    }

    /// The mean over all axes behind the channels, which may be the last axis.
    fn mean(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_real(node, 0)?;
        self.check_batch(&x)?;
        let axes = match (node.integers("axes"), node.input(1)) {
            (Some(axes), _) => axes.to_vec(),
            (None, Some(_)) => self.integers(node, 1)?,
            (None, None) => return self.refuse("it is over the batch; name its axes"),
        };
        let axes = axes.iter().map(|&axis| self.axis(axis, &x));
        let mut axes = axes.collect::<Read<Vec<_>>>()?;
        axes.sort_unstable();
        let mut shape = x.shape();
        let last = shape.len() - 1;
        let is_of_last = axes.iter().copied().eq(0..last);
        if !(1..=2).contains(&last) || !is_of_last && !axes.iter().copied().eq(1..=last) {
            return self.refuse("it must be over all axes behind the channels");
        }
        let x = if is_of_last { self.tokens_in_line(x)? } else { self.placed(x)? };
        let channels = self.graph.shape(x.value)[0];
        let window = Window::new(pair(&self.graph.shape(x.value)[1..], 1));
        let name = self.layer_name();
        let y = self.graph.pool(&name, x.value, window, Pooling::MeanOfImage);
        let y = self.record(y, &[&x])?;
        if node.integer("keepdims", 1) == 0 {
            return self.set_shaped(node, y, &[channels]);
        }
        axes.iter().for_each(|&axis| shape[axis] = 1);
        self.set_shaped(node, y, &shape)
    }

    /// A list of integers that is an input.
    pub(super) fn integers(&self, node: &Node<'a>, at: usize) -> Read<Vec<i64>> {
        let integers = match self.meaning(node, at)? {
            Meaning::Constant(constant) => constant.integers(),
            _ => None,
        };
        match integers {
            Some(integers) => Ok(integers),
            None => self.refuse(
                "a shape or a list of axes is no constant; simplify the model, such as with \
                 `onnxruntime.quantization.shape_inference.quant_pre_process`",
            ),
        }
    }
}
