//! Channels as square blocks of pixels, and the transposed convolutions that are a product of each
//! pixel before it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use super::window::plane;
use crate::kernels::QuantizedDepthToSpace;
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
    /// A transposed convolution whose windows do not overlap is a convolution of kernel size 1, then
    /// this.
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
        let is_disjoint = [rows, columns] == options.stride
            && rows == columns
            && options.padding == [0, 0]
            && options.padding_out == [0, 0]
            && options.dilation == [1, 1]
            && options.groups == 1;
        if !is_disjoint {
            let reason = "its windows overlap, are padded, dilated or grouped, or are no squares; \
                          a transposed convolution needs a stride equal to its kernel";
            return Err(reader.unsupported(reason));
        }
        let (x, _) = reader.value(&conv.x)?;
        let weights = reader.constant(&conv.weight, "its weights depend on the input")?.values;
        let bias = reader.bias(conv.bias.as_ref(), outputs)?;
        let area = rows * columns;
        let of_pixel: Vec<f32> = (0..area * outputs * inputs)
            .map(|at| {
                let [place, output, input] =
                    [at / inputs / outputs, at / inputs % outputs, at % inputs];
                weights[(input * outputs + output) * area + place]
            })
            .collect();
        let name = reader.name_of(layer, "transposed");
        let window = super::Window::new([1, 1]);
        let biases = bias.repeat(area);
        let products = reader.graph.convolution(&name, x, window, 1, &of_pixel, &biases);
        let products = reader.added(products)?;
        let y = reader.graph.depth_to_space(&format!("{name}.blocks"), products, rows);
        reader.layer(y).map(Some)
    }
}

impl Kernel for QuantizedDepthToSpace {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.run(x(0), y, job.scratch, job.threads);
    }
}
