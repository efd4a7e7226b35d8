//! Windows of convolutions and pooling: strides, padding and dilation.

use super::error::Read;
use super::importer::Importer;
use super::message::Node;
use crate::operation::Window;

/// A window whose padding is the same before and after, and the zeros around a kernel that make it
/// so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) window: Window,
    /// Rows and columns of zeros before a kernel, and after it.
    pub(super) zeros: [[usize; 2]; 2],
}

/// Positions of one axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    side: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
}

impl Axis {
    const fn span(self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The windows with so much padding on both sides together.
    fn count(self, padding: usize, is_ceiled: bool) -> Option<usize> {
        let room = (self.side + padding).checked_sub(self.span())?;
        let more = if is_ceiled { room.div_ceil(self.stride) } else { room / self.stride };
        Some(more + 1)
    }
}

/// Two numbers, by height and width; a line has one row.
pub(super) fn pair(values: &[usize], of_row: usize) -> [usize; 2] {
    match *values {
        [width] => [of_row, width],
        [height, width, ..] => [height, width],
        [] => [of_row; 2],
    }
}

impl Importer<'_> {
    /// The window of a node over an image or a line with so many axes behind its channels.
    pub(super) fn window(
        &self,
        node: &Node<'_>,
        sides: &[usize],
        kernel: &[usize],
        may_extend: bool,
    ) -> Read<Placed> {
        let axes = sides.len();
        if !(1..=2).contains(&axes) || kernel.len() != axes {
            return self.refuse("windows move over one or two axes; volumes are not supported");
        }
        let strides = self.lengths(node, "strides", axes, 1)?;
        let dilations = self.lengths(node, "dilations", axes, 1)?;
        let pads = self.lengths(node, "pads", 2 * axes, 0)?;
        let is_ceiled = node.integer("ceil_mode", 0) != 0;
        let auto = node.text("auto_pad", "NOTSET");
        let (mut paddings, mut before, mut after) = (vec![], vec![], vec![]);
        for axis in 0..axes {
            let (kernel, stride, dilation) = (kernel[axis], strides[axis], dilations[axis]);
            if kernel == 0 || stride == 0 || dilation == 0 {
                return self.refuse("a kernel, a stride and a dilation must be 1 at least");
            }
            let along = Axis { side: sides[axis], kernel, stride, dilation };
            if along.side.max(along.span()) >= 1 << 30 {
                return self.refuse("its window or its image has more than 2³⁰ rows");
            }
            let [first, last] = match auto {
                "NOTSET" | "" => [pads[axis], pads[axes + axis]],
                "VALID" => [0, 0],
                "SAME_UPPER" | "SAME_LOWER" => {
                    let covered = (along.side.div_ceil(stride) - 1) * stride + along.span();
                    let all = covered.saturating_sub(along.side);
                    let less = all / 2;
                    if auto == "SAME_UPPER" { [less, all - less] } else { [all - less, less] }
                }
                _ => return self.refuse("its `auto_pad` is unknown"),
            };
            let wanted = along.count(first + last, is_ceiled);
            let (padding, zeros) = if wanted == along.count(2 * first, false) {
                // Windows do not depend on the padding behind the last one.
                (first, [0, 0])
            } else if may_extend && first.abs_diff(last).is_multiple_of(dilation) {
                let more = first.abs_diff(last) / dilation;
                (first.max(last), if first < last { [more, 0] } else { [0, more] })
            } else {
                return self.refuse(
                    "its padding before and after differ, or it is rounded up (`ceil_mode`), so \
                     that the last windows reach beyond the padding",
                );
            };
            paddings.push(padding);
            before.push(zeros[0]);
            after.push(zeros[1]);
        }
        let extended: Vec<usize> =
            (0..axes).map(|axis| kernel[axis] + before[axis] + after[axis]).collect();
        let window = Window {
            kernel: pair(&extended, 1),
            stride: pair(&strides, 1),
            padding: pair(&paddings, 0),
            dilation: pair(&dilations, 1),
        };
        Ok(Placed { window, zeros: [pair(&before, 0), pair(&after, 0)] })
    }

    /// Kernels `[…][rows][columns]` with the zeros around them that a window has.
    pub(super) fn extended<T: Copy + Default>(
        &mut self,
        values: Vec<T>,
        kernel: [usize; 2],
        placed: &Placed,
    ) -> Read<Vec<T>> {
        let [before, after] = placed.zeros;
        if [before, after] == [[0; 2]; 2] || values.is_empty() {
            return Ok(values);
        }
        let [rows, columns] = placed.window.kernel;
        let count = values.len() / (kernel[0] * kernel[1]);
        let len = count.saturating_mul(rows).saturating_mul(columns);
        self.add_numbers(len)?;
        let mut extended = vec![T::default(); len];
        let kernels = values.chunks_exact(kernel[0] * kernel[1]);
        for (to, from) in extended.chunks_exact_mut(rows * columns).zip(kernels) {
            for (row, from) in from.chunks_exact(kernel[1]).enumerate() {
                let first = (before[0] + row) * columns + before[1];
                to[first..first + kernel[1]].copy_from_slice(from);
            }
        }
        Ok(extended)
    }
}
