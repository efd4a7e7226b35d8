//! Models on burn's tensors.

use burn::tensor::{DType, Tensor, TensorData};

use crate::network::{QuantizedModel, Workspace};
use crate::slices::Isa;

impl QuantizedModel {
    /// Computes the answers of images on any device, as [`run`](Self::run) does on slices.
    ///
    /// The images come to the CPU and the answers go back to their device, in their dtype.
    ///
    /// # Shapes
    /// - `x`: `[batch, channels, height, width]`
    /// - returns: `[batch, channels, height, width]`, or `[batch, numbers]` for `D` = 2
    ///
    /// # Panics
    /// If the shape is not [the model's](Self::shapes), `D` is neither 2 nor 4, or the path is not
    /// available.
    #[must_use]
    pub fn forward<const D: usize>(
        &self,
        isa: Isa,
        x: Tensor<4>,
        workspace: &mut Workspace,
        threads: usize,
    ) -> Tensor<D> {
        let [image, [channels, height, width]] = self.shapes();
        let (device, dtype) = (x.device(), x.dtype());
        let [batch, sides @ ..] = x.dims();
        assert_eq!(sides, image, "channels, height and width of an image");
        let numbers = channels * height * width;
        let shape = match D {
            2 => vec![batch, numbers],
            4 => vec![batch, channels, height, width],
            _ => panic!("answers have 2 or 4 axes, not {D}"),
        };
        let x = x.into_data().convert_dtype(DType::F32);
        let x = x.as_slice::<f32>().expect("it was converted to f32");
        let mut y = vec![0.0; batch * numbers];
        self.run(isa, x, &mut y, workspace, threads);
        Tensor::from_data(TensorData::new(y, shape), (&device, dtype))
    }
}
