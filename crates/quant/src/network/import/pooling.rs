//! Maximum and average pooling, of windows and of whole images.

use super::error::Read;
use super::importer::{Importer, Meaning, Real};
use super::message::Node;
use super::window::pair;
use crate::kernels::Pooling;
use crate::operation::Window;

impl<'a> Importer<'a> {
    pub(super) fn pool(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_placed(node, 0)?;
        let sides = x.shape.get(1..).unwrap_or_default();
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
        let x = self.input_placed(node, 0)?;
        let sides = x.shape.get(1..).unwrap_or_default();
        if !(1..=2).contains(&sides.len()) {
            return self.refuse("it must read images or lines");
        }
        let pooling = match node.operation {
            "GlobalMaxPool" => Pooling::Maximum,
            _ => Pooling::MeanOfImage,
        };
        let mut is_kept = true;
        if node.operation == "ReduceMean" {
            is_kept = node.integer("keepdims", 1) != 0;
            let axes = match (node.integers("axes"), node.input(1)) {
                (Some(axes), _) => axes.to_vec(),
                (None, Some(_)) => self.integers(node, 1)?,
                (None, None) => return self.refuse("it is over the batch; name its axes"),
            };
            let axes = axes.iter().map(|&axis| self.axis(axis, x.shape.len()));
            let mut axes = axes.collect::<Read<Vec<_>>>()?;
            axes.sort_unstable();
            if !axes.into_iter().eq(1..x.shape.len()) {
                return self.refuse("it must be over all axes behind the channels");
            }
        }
        let window = Window::new(pair(sides, 1));
        let channels = x.shape[0];
        self.pooled(node, &x, window, pooling)?;
        if !is_kept {
            let Meaning::Real(mut real) = self.meaning_of(node.outputs[0])? else {
                return self.refuse("it has no output");
            };
            real.shape = vec![channels];
            self.set(node, Meaning::Real(real))?;
        }
        Ok(())
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
