//! Sliding-window inference on tensors.

use std::array;
use std::ops::ControlFlow;

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::error::DataError;
use crate::pixels::Pixels;
use crate::raster::Raster;
use crate::sliding::{ModelError, Reduction, SlidingWindow, WindowBatch};
use crate::volume::Volume;

impl WindowBatch {
    /// The windows as a tensor `[windows, channels, …sides]` in the device's default dtype.
    ///
    /// # Errors
    /// An error text if `D` is not two more than the sides of a window.
    pub fn to_tensor<const D: usize>(self, device: &Device) -> Result<Tensor<D>, ModelError> {
        let shape = [&[self.windows, self.channels], self.sides.as_slice()].concat();
        if shape.len() != D {
            return Err(format!("windows of shape {shape:?} are no tensor of {D} axes").into());
        }
        let mut data = TensorData::new(self.values, shape);
        device.staging(std::iter::once(&mut data));
        Ok(Tensor::from_data(data, device))
    }
}

impl SlidingWindow {
    /// Applies a model to every window of pictures or volumes and blends the results, on the host.
    ///
    /// # Shapes
    /// - `input`: `[pictures, channels, …]`, with as many further axes as the window has sides
    /// - `model`: windows `[up to batch, channels, …window]` to `[the same, any channels, …window]`
    /// - returns: `[pictures, the model's channels, …]`, the sides and the dtype of the input;
    ///   blended in f32
    ///
    /// # Errors
    /// As [`validate`](Self::validate), and as [`predict`](Self::predict) for a model that changes
    /// the number of windows or their sides.
    ///
    /// # Panics
    /// If `input` is empty or on a device that fails.
    pub fn apply<const D: usize>(
        &self,
        input: Tensor<D>,
        mut model: impl FnMut(Tensor<D>) -> Tensor<D>,
    ) -> Result<Tensor<D>, DataError> {
        self.validate(D.saturating_sub(2))?;
        let (shape, device, dtype) = (input.dims(), input.device(), input.dtype());
        let values = host(input);
        let mut results: Vec<f32> = Vec::with_capacity(values.len());
        let mut channels = 0;
        for picture in values.chunks_exact(values.len() / shape[0]) {
            let raster = Raster::from_planes(shape[1], &shape[2..], picture.to_vec())?;
            let volume = Volume::try_new("tensor", vec![raster], [None; 3])?;
            let mut on_device = |windows: WindowBatch| {
                let windows: Tensor<D> = windows.to_tensor(&device)?;
                Ok(host(model(windows.cast(dtype))))
            };
            let go_on = &mut |_| ControlFlow::Continue(());
            let result = self.predict(&volume, Reduction::Keep, &mut on_device, go_on)?;
            let raster = &result.frames()[0];
            channels = raster.spec().channels;
            let Pixels::F32(pixels) = raster.pixels() else { continue };
            let channel = |at| pixels.iter().skip(at).step_by(channels);
            (0..channels).for_each(|at| results.extend(channel(at)));
        }
        let shape: [usize; D] =
            array::from_fn(|axis| if axis == 1 { channels } else { shape[axis] });
        Ok(Tensor::<D>::from_data(TensorData::new(results, shape), &device).cast(dtype))
    }
}

fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.cast(DType::F32).into_data();
    data.try_to_vec().expect("a tensor of f32 is read as f32")
}
