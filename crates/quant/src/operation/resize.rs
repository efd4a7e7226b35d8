//! Nearest and linear interpolation of images and lines to another size.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Shapes, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use super::window::plane;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeBlend, CubeCopies, Places, Uploaded};
use crate::kernels::{QuantizedResize, Resizing};
use crate::network::{Attribute, Graph, GraphError, Node, Value};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resize {
    /// Height and width; a line has one row.
    sides: [usize; 2],
    resizing: Resizing,
}

impl Graph {
    /// An image of other sides, height and width; a line, `[channels, length]`, has one row.
    ///
    /// # Errors
    /// [`GraphError`] for a side of 0, or a value that is neither an image nor a line.
    pub fn resize(
        &mut self,
        name: &str,
        x: Value,
        sides: [usize; 2],
        resizing: Resizing,
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Resize { sides, resizing }, Parameters::default()), &[x])
    }
}

impl Operation for Resize {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        // Positions are counted in quarters of the largest side.
        let is_side = |side: &usize| (1..1 << 24).contains(side);
        match (x[0].as_slice(), self.sides) {
            (&[channels, height, width], sides)
                if [height, width].iter().chain(&sides).all(is_side) =>
            {
                Ok(vec![channels, sides[0], sides[1]])
            }
            (&[channels, length], [1, side]) if is_side(&length) && is_side(&side) => {
                Ok(vec![channels, side])
            }
            (shape, sides) => Err(OperationError::Sides { shape: shape.to_vec(), sides }),
        }
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let [_, height, width] = plane(&shapes.x[0]);
        let [rows, columns] = self.sides;
        let planes = x[0].chunks_exact(height * width).zip(y.chunks_exact_mut(rows * columns));
        for (x, y) in planes {
            for (row, y) in self.resizing.taps(height, rows).zip(y.chunks_exact_mut(columns)) {
                for (column, y) in self.resizing.taps(width, columns).zip(y) {
                    let [down, right] =
                        [row, column].map(|tap| tap.part[0] as f32 / tap.part[1] as f32);
                    let line = |row: usize| {
                        let [a, b] = column.at.map(|column| x[row * width + column]);
                        a + right * (b - a)
                    };
                    let [a, b] = row.at.map(line);
                    *y = a + down * (b - a);
                }
            }
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let from = plane(&around.shapes.x[0]);
        let (x, y) = (around.x[0], around.y);
        Ok(Some(Arc::new(QuantizedResize::new(from, self.sides, self.resizing, x, y))))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let from = plane(&around.shapes.x[0]);
        let [channels, height, width] = from;
        if !self.resizing.is_nearest() {
            let resize =
                QuantizedResize::new(from, self.sides, self.resizing, around.x[0], around.y);
            return Ok(Box::new(CubeBlend::try_new(client, &resize, channels, around.y)?));
        }
        let [rows, columns] = self.sides;
        let of_rows: Vec<_> = self.resizing.taps(height, rows).collect();
        let of_columns: Vec<_> = self.resizing.taps(width, columns).collect();
        let place = |at: usize| {
            let (channel, pixel) = (at % channels, at / channels);
            let [row, column] = [&of_rows[pixel / columns], &of_columns[pixel % columns]];
            (row.at[0] * width + column.at[0]) * channels + channel
        };
        let places = (0..rows * columns * channels).map(place);
        let places = Places::of_samples(channels, [height * width, channels], places);
        Ok(Box::new(CubeCopies::new(client, [channels, rows * columns], &[(places, None)])))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read(0);
        let Shapes { x: from, y: to } = node.shapes();
        let sides = from[0][1..].iter().zip(&to[1..]).map(|(&from, &to)| scale(from, to));
        let scales: Vec<f32> = [1.0; 2].into_iter().chain(sides).collect();
        let scales = node.reals(".scales", &scales);
        let text = Attribute::Text;
        let (mode, places, rounding) = match self.resizing {
            Resizing::Nearest => ("nearest", "asymmetric", "floor"),
            Resizing::NearestExact => ("nearest", "half_pixel", "round_prefer_ceil"),
            Resizing::Linear => ("linear", "half_pixel", "floor"),
            Resizing::LinearCorners => ("linear", "align_corners", "floor"),
        };
        let attributes = vec![
            ("mode", text(mode)),
            ("coordinate_transformation_mode", text(places)),
            ("nearest_mode", text(rounding)),
        ];
        // Without a region of interest. onnxruntime's optimizer fails for sizes of only some axes.
        node.push("Resize", &[&x, "", &scales], "", attributes)
    }

    fn may_be_clipped(&self) -> bool {
        !self.keeps_scheme()
    }

    fn keeps_scheme(&self) -> bool {
        self.resizing.is_nearest()
    }
}

impl Registered for Resize {
    const KIND: &'static str = "resize";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{InterpolateModeIr as I, ModuleOperationIr, OperationIr};

        let OperationIr::Module(ModuleOperationIr::Interpolate(resize)) = operation else {
            return Ok(None);
        };
        let resizing = match (&resize.options.mode, resize.options.align_corners) {
            (I::Nearest, _) => Resizing::Nearest,
            (I::NearestExact, _) => Resizing::NearestExact,
            (I::Bilinear, false) => Resizing::Linear,
            (I::Bilinear, true) => Resizing::LinearCorners,
            (I::Bicubic | I::Lanczos3, _) => {
                return Err(reader.unsupported("it resizes by more than the four nearest pixels"));
            }
        };
        let (x, _) = reader.value(&resize.x)?;
        let name = reader.numbered("resize");
        let y = reader.graph.resize(&name, x, resize.output_size, resizing);
        reader.layer(y).map(Some)
    }
}

/// The scale with which ONNX computes one side from another: `⌊from·scale⌋`.
fn scale(from: usize, to: usize) -> f32 {
    let scale = to as f32 / from as f32;
    if from as f32 * scale < to as f32 { scale.next_up() } else { scale }
}

impl Kernel for QuantizedResize {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.run(job.isa, x(0), y, job.scratch, job.threads);
    }
}
