//! Maximum and average pooling.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Shapes, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use super::window::{Window, plane};
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeMaximum, CubeMean, Uploaded};
use crate::kernels::{Pooling, QuantizedPooling};
use crate::network::{Attribute, Graph, GraphError, Node, Value};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    window: Window,
    pooling: Pooling,
}

impl Pool {
    fn geometry(&self, shapes: &Shapes) -> ConvGeometry {
        let channels = shapes.x[0][0];
        self.window.over(&shapes.x[0], channels, channels).expect("checked with its shape").0
    }
}

impl Graph {
    /// The maximum or the mean of windows.
    ///
    /// # Errors
    /// [`GraphError`] for windows that do not fit, or that contain only padding.
    pub fn pool(
        &mut self,
        name: &str,
        x: Value,
        window: Window,
        pooling: Pooling,
    ) -> Result<Value, GraphError> {
        self.layer(name, Work::new(Pool { window, pooling }, Parameters::default()), &[x])
    }
}

impl Operation for Pool {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        let (geometry, y) = self.window.over(&x[0], x[0][0], x[0][0])?;
        let Window { kernel, stride, padding, dilation } = self.window;
        let sides = geometry.shape().input;
        // Windows at both ends have the fewest pixels; a dilated one may have none in a narrow
        // image.
        let holds = |axis: usize, index: usize| {
            let first = index * stride[axis];
            // The first entry after the padding before the image.
            let entry = padding[axis].saturating_sub(first).div_ceil(dilation[axis]);
            entry < kernel[axis] && first + entry * dilation[axis] - padding[axis] < sides[axis]
        };
        let are_held = |axis: usize| (0..geometry.output()[axis]).all(|index| holds(axis, index));
        if are_held(0) && are_held(1) { Ok(y) } else { Err(OperationError::Padding) }
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        let geometry = self.geometry(shapes);
        let ConvShape { input, kernel, stride, padding, dilation, .. } = *geometry.shape();
        let [rows, columns] = geometry.output();
        let inside = |axis: usize, window: usize, entry: usize| {
            let place = window * stride[axis] + entry * dilation[axis];
            place.checked_sub(padding[axis]).filter(|&place| place < input[axis])
        };
        let planes = x[0].chunks_exact(input[0] * input[1]).zip(y.chunks_exact_mut(rows * columns));
        for (x, y) in planes {
            for (index, y) in y.iter_mut().enumerate() {
                let (window_row, window_column) = (index / columns, index % columns);
                let (mut most, mut sum, mut count) = (f32::NEG_INFINITY, 0.0, 0);
                for row in (0..kernel[0]).filter_map(|entry| inside(0, window_row, entry)) {
                    for column in (0..kernel[1]).filter_map(|entry| inside(1, window_column, entry))
                    {
                        let value = x[row * input[1] + column];
                        most = most.max(value);
                        sum += value;
                        count += 1;
                    }
                }
                *y = match self.pooling {
                    Pooling::Maximum => most,
                    Pooling::MeanOfImage => sum / count.max(1) as f32,
                    Pooling::MeanWithPadding => sum / (kernel[0] * kernel[1]) as f32,
                };
            }
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let geometry = self.geometry(around.shapes);
        let kernel = QuantizedPooling::new(&geometry, self.pooling, around.x[0], around.y);
        Ok(Some(Arc::new(kernel)))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let (geometry, x, y) = (self.geometry(around.shapes), around.x[0], around.y);
        Ok(match self.pooling {
            Pooling::Maximum => Box::new(CubeMaximum::new(&geometry)),
            Pooling::MeanOfImage | Pooling::MeanWithPadding => {
                Box::new(CubeMean::try_new(client, &geometry, self.pooling, x, y)?)
            }
        })
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read_image(0);
        let mut attributes = self.window.attributes();
        let operator = match self.pooling {
            Pooling::Maximum => "MaxPool",
            Pooling::MeanOfImage | Pooling::MeanWithPadding => {
                let counts = i64::from(self.pooling == Pooling::MeanWithPadding);
                attributes.push(("count_include_pad", Attribute::Integer(counts)));
                "AveragePool"
            }
        };
        node.image(operator, &[&x], attributes)
    }

    fn may_be_clipped(&self) -> bool {
        // A maximum keeps the codes of its input, without another bound.
        !self.keeps_scheme()
    }

    fn keeps_scheme(&self) -> bool {
        self.pooling == Pooling::Maximum
    }

    fn is_mean_of_image(&self, shapes: &Shapes) -> bool {
        let [_, height, width] = plane(&shapes.x[0]);
        let Window { kernel, padding, .. } = self.window;
        self.pooling == Pooling::MeanOfImage && kernel == [height, width] && padding == [0, 0]
    }
}

impl Registered for Pool {
    const KIND: &'static str = "pool";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{ModuleOperationIr as M, OperationIr};

        let OperationIr::Module(operation) = operation else { return Ok(None) };
        let mean = |counts: bool| match counts {
            true => Pooling::MeanWithPadding,
            false => Pooling::MeanOfImage,
        };
        // A line is an image of one row.
        let line = |kernel: usize, stride: usize, padding: usize, dilation: usize| Window {
            kernel: [1, kernel],
            stride: [1, stride],
            padding: [0, padding],
            dilation: [1, dilation],
        };
        let (x, window, pooling) = match operation {
            M::AvgPool2d(pool) => {
                let window = Window {
                    stride: pool.stride,
                    padding: pool.padding,
                    ..Window::new(pool.kernel_size)
                };
                (&pool.x, window, mean(pool.count_include_pad))
            }
            M::AvgPool1d(pool) => {
                let window = line(pool.kernel_size, pool.stride, pool.padding, 1);
                (&pool.x, window, mean(pool.count_include_pad))
            }
            M::MaxPool2d(pool) => {
                let window = Window {
                    kernel: pool.kernel_size,
                    stride: pool.stride,
                    padding: pool.padding,
                    dilation: pool.dilation,
                };
                (&pool.x, window, Pooling::Maximum)
            }
            M::MaxPool1d(pool) => {
                let window = line(pool.kernel_size, pool.stride, pool.padding, pool.dilation);
                (&pool.x, window, Pooling::Maximum)
            }
            M::AdaptiveAvgPool2d(pool) => {
                let window = reader.even_windows(&pool.x.shape[2..], &pool.output_size)?;
                (&pool.x, window, Pooling::MeanOfImage)
            }
            M::AdaptiveAvgPool1d(pool) => {
                let window = reader.even_windows(&pool.x.shape[2..], &[pool.output_size])?;
                (&pool.x, window, Pooling::MeanOfImage)
            }
            _ => return Ok(None),
        };
        let (x, _) = reader.value(x)?;
        let name = reader.numbered("pool");
        let y = reader.graph.pool(&name, x, window, pooling);
        reader.layer(y).map(Some)
    }
}

#[cfg(feature = "burn")]
impl crate::module::Reader<'_> {
    /// Windows of one size that cover the sides of a tensor without a remainder.
    fn even_windows(
        &self,
        sides: &[usize],
        windows: &[usize],
    ) -> Result<Window, crate::module::CaptureError> {
        let mut kernel = [1; 2];
        let axes = kernel[2 - sides.len()..].iter_mut().zip(sides.iter().zip(windows));
        for (kernel, (&side, &count)) in axes {
            if count == 0 || !side.is_multiple_of(count) {
                return Err(self.unsupported("its windows differ in size"));
            }
            *kernel = side / count;
        }
        Ok(Window { stride: kernel, ..Window::new(kernel) })
    }
}

impl Kernel for QuantizedPooling {
    fn run(&self, x: Codes<'_>, y: &mut [u8], job: &mut Job<'_>) {
        self.run(job.isa, x(0), y, job.scratch, job.threads);
    }
}
