//! Channels as square blocks of pixels, and transposed convolutions: a convolution before it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use super::window::plane;
use crate::kernels::QuantizedDepthToSpace;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeCopies, Places, Uploaded};
use crate::network::{Attribute, Graph, GraphError, Node, Value};

/// From `[block · block · channels, height, width]`, row by row of a block, to
/// `[channels, block · height, block · width]`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DepthToSpace {
    block: usize,
}

impl Graph {
    /// An image whose pixels become blocks of `block × block` pixels: the channel
    /// `(row · block + column) · outputs + output` is the output's pixel at this row and column of
    /// the block.
    ///
    /// A transposed convolution is a convolution whose channels are the pixels of a block, then this.
    ///
    /// # Errors
    /// [`GraphError`] for a block of 0, or a value that is no image with a multiple of `block²`
    /// channels.
    pub fn depth_to_space(
        &mut self,
        name: &str,
        x: Value,
        block: usize,
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(DepthToSpace { block }, Parameters::default()), &[x])
    }
}

impl Operation for DepthToSpace {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        let refused = || OperationError::Blocks { shape: x[0].clone(), block: self.block };
        let &[channels, height, width] = x[0].as_slice() else { return Err(refused()) };
        let area = self.block.checked_mul(self.block).filter(|&area| area > 0);
        match (area, height.checked_mul(self.block), width.checked_mul(self.block)) {
            (Some(area), Some(rows), Some(columns)) if channels.is_multiple_of(area) => {
                Ok(vec![channels / area, rows, columns])
            }
            _ => Err(refused()),
        }
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let block = self.block;
        let [_, height, width] = plane(&shapes.x[0]);
        let [outputs, rows, columns] = plane(&shapes.y);
        for (at, y) in y.iter_mut().enumerate() {
            let [output, row, column] = [at / columns / rows, at / columns % rows, at % columns];
            let channel = (row % block * block + column % block) * outputs + output;
            *y = x[0][(channel * height + row / block) * width + column / block];
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let [_, height, width] = plane(&around.shapes.x[0]);
        let outputs = around.shapes.y[0];
        Ok(Some(Arc::new(QuantizedDepthToSpace::new(outputs, [height, width], self.block))))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let block = self.block;
        let [channels, height, width] = plane(&around.shapes.x[0]);
        let [outputs, rows, columns] = plane(&around.shapes.y);
        let place = |at: usize| {
            let (output, pixel) = (at % outputs, at / outputs);
            let (row, column) = (pixel / columns, pixel % columns);
            let channel = (row % block * block + column % block) * outputs + output;
            (row / block * width + column / block) * channels + channel
        };
        let places = (0..rows * columns * outputs).map(place);
        let places = Places::of_samples(outputs, [height * width, channels], places);
        Ok(Box::new(CubeCopies::new(client, [outputs, rows * columns], &[(places, None)])))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read(0);
        let attributes = vec![
            ("blocksize", Attribute::Integer(self.block as i64)),
            ("mode", Attribute::Text("DCR")),
        ];
        node.push("DepthToSpace", &[&x], "", attributes)
    }

    fn keeps_scheme(&self) -> bool {
        true
    }
}

impl Registered for DepthToSpace {
    const KIND: &'static str = "depth-to-space";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        layer: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{ModuleOperationIr as M, OperationIr};

        let OperationIr::Module(M::ConvTranspose2d(conv)) = operation else { return Ok(None) };
        let options = &conv.options;
        let [inputs, outputs, rows, columns] = match conv.weight.shape.as_slice() {
            &[inputs, outputs, rows, columns] => [inputs, outputs, rows, columns],
            _ => return Err(reader.unsupported("its weights have no four axes")),
        };
        let stride = options.stride[0];
        // Outputs of each axis, and those that whole blocks of pixels have: `last` is the block of
        // the last input, which has as many blocks before it as the kernel reaches over.
        let taps = [rows, columns].map(|side| side.div_ceil(stride));
        let sides: [usize; 2] = std::array::from_fn(|axis| conv.x.shape[2 + axis]);
        let blocks: [usize; 2] = std::array::from_fn(|axis| sides[axis] + taps[axis] - 1);
        let fits = |axis: usize| {
            let [side, padding] = [[rows, columns][axis], options.padding_out[axis]];
            side + padding <= taps[axis] * stride
        };
        let is_plain = options.stride[1] == stride
            && options.dilation == [1, 1]
            && options.groups == 1
            && (0..2).all(fits);
        if !is_plain {
            let reason = "it is dilated or grouped, its strides differ, or outputs are added that no \
                          window reaches";
            return Err(reader.unsupported(reason));
        }
        let (x, _) = reader.value(&conv.x)?;
        let weights = reader.constant(&conv.weight, "its weights depend on the input")?.values;
        let bias = reader.bias(conv.bias.as_ref(), outputs)?;
        let blocked = blocked(&weights, [inputs, outputs, rows, columns], stride);
        let name = reader.name_of(layer, "transposed");
        let padding = taps.map(|taps| taps - 1);
        let window = super::Window { padding, ..super::Window::new(taps) };
        let biases = bias.repeat(stride * stride);
        let products = reader.graph.convolution(&name, x, window, 1, &blocked, &biases);
        let products = reader.added(products)?;
        let y = reader.graph.depth_to_space(&format!("{name}.blocks"), products, stride);
        let y = reader.added(y)?;
        let whole = [outputs, blocks[0] * stride, blocks[1] * stride];
        let kept = &conv.out.shape;
        let places = (0..2).map(|axis| (1 + axis, options.padding[axis], kept[2 + axis]));
        Ok(Some(reader.part(y, &whole, places)))
    }
}

/// The weights of a transposed convolution, `[inputs, outputs, rows, columns]`, as those of a
/// convolution whose channels are the pixels of a block: `[row, column, output, input, …]`.
///
/// Output `b·stride + r` along an axis is the sum over `t` of input `b − t` times weight
/// `r + t·stride`; weights beyond the kernel are zero.
pub(crate) fn blocked<T: Copy + Default>(
    weights: &[T],
    [inputs, outputs, rows, columns]: [usize; 4],
    stride: usize,
) -> Vec<T> {
    let taps = [rows, columns].map(|side| side.div_ceil(stride));
    let mut blocked = Vec::with_capacity(stride * stride * outputs * inputs * taps[0] * taps[1]);
    for place in 0..stride * stride {
        let [row, column] = [place / stride, place % stride];
        for output in 0..outputs {
            for input in 0..inputs {
                for tap in 0..taps[0] * taps[1] {
                    // The first tap of a window is the input that lies the furthest back.
                    let row = row + (taps[0] - 1 - tap / taps[1]) * stride;
                    let column = column + (taps[1] - 1 - tap % taps[1]) * stride;
                    let at = ((input * outputs + output) * rows + row) * columns + column;
                    let is_inside = row < rows && column < columns;
                    blocked.push(if is_inside { weights[at] } else { T::default() });
                }
            }
        }
    }
    blocked
}

impl Kernel for QuantizedDepthToSpace {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.run(x(0), y, job.scratch, job.threads);
    }
}
