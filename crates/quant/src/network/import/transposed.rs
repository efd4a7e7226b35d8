//! `ConvTranspose`: a convolution whose channels are the pixels of a block, and a cut.

use super::convolution::per_output;
use super::error::Read;
use super::importer::Importer;
use super::message::Node;
use super::real::Real;
use super::weights::{Bias, FileWeights, GivenWeights};
use crate::operation::{Window, blocked};

impl Bias {
    /// The same biases several times.
    pub(super) fn repeated(&self, times: usize) -> Self {
        match self {
            Self::Real(values) => Self::Real(values.repeat(times)),
            Self::Codes { codes, scales } => {
                Self::Codes { codes: codes.repeat(times), scales: scales.repeat(times) }
            }
        }
    }
}

impl<'a> Importer<'a> {
    pub(super) fn transposed(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_placed(node, 0)?;
        let FileWeights { shape, real, codes } = self.weights(node, 1)?;
        let (&[_, height, width], &[inputs, outputs, rows, columns]) = (&x.shape()[..], &shape[..])
        else {
            return self.refuse("it must read images");
        };
        let strides = self.lengths(node, "strides", 2, 1)?;
        let pads = self.lengths(node, "pads", 4, 0)?;
        let more = self.lengths(node, "output_padding", 2, 0)?;
        let stride = strides[0];
        let is_plain = strides[1] == stride
            && (1..1 << 12).contains(&stride)
            && !real.is_empty()
            && self.lengths(node, "dilations", 2, 1)? == [1, 1]
            && node.integer("group", 1) == 1
            && matches!(node.text("auto_pad", "NOTSET"), "NOTSET" | "")
            && node.attribute("output_shape").is_none();
        if !is_plain {
            return self.refuse(
                "it is dilated or grouped, its strides differ, or its padding is given by \
                 `auto_pad` or `output_shape`",
            );
        }
        // Whole blocks of pixels: the last input reaches over as many blocks as it has taps.
        let (sides, kernel) = ([height, width], [rows, columns]);
        let taps = kernel.map(|side| side.div_ceil(stride));
        let mut kept = [0; 2];
        for axis in 0..2 {
            let all = (sides[axis] - 1) * stride + kernel[axis] + more[axis];
            let cut = all.checked_sub(pads[axis] + pads[2 + axis]).filter(|&side| side > 0);
            match cut {
                Some(side) if kernel[axis] + more[axis] <= taps[axis] * stride => kept[axis] = side,
                _ => return self.refuse("it cuts all pixels, or adds some that no window reaches"),
            }
        }
        let area = stride * stride;
        let count = [inputs, outputs, taps[0], taps[1]];
        let count = count.into_iter().fold(area, usize::saturating_mul);
        self.add_numbers(count)?;
        let bias = self.bias(node, 2, outputs)?.repeated(area);
        let weights = codes.map(|(values, scales)| GivenWeights {
            values: blocked(&values, [inputs, outputs, rows, columns], stride),
            scales: per_output(scales, outputs).repeat(area),
            bias: bias.clone(),
        });
        let real = blocked(&real, [inputs, outputs, rows, columns], stride);
        let window = Window { padding: taps.map(|taps| taps - 1), ..Window::new(taps) };
        let name = self.layer_name();
        let y = self.graph.convolution(&name, x.value, window, 1, &real, &bias.reals());
        let y = self.record(y, &[&x])?;
        self.layers[y.0].is_float = weights.is_none();
        self.layers[y.0].weights = weights;
        let products = Real::of(y, false, &[]);
        let name = self.layer_name();
        let blocks = self.graph.depth_to_space(&name, y, stride);
        let blocks = self.record(blocks, &[&products])?;
        let [row, whole] = match *self.graph.shape(blocks) {
            [_, height, width] => [width, height * width],
            _ => return self.refuse("it must read images"),
        };
        let name = self.layer_name();
        let axes = [[outputs, whole], [kept[0], row], [kept[1], 1]];
        let shape = [outputs, kept[0], kept[1]];
        let first = pads[0] * row + pads[1];
        let cut = self.graph.rearrange(&name, blocks, &shape, &axes, first);
        let cut = self.record(cut, &[&Real { value: blocks, ..products }])?;
        self.set_value(node, cut, false)
    }
}
