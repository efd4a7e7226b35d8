//! burn's tensors as inputs and outputs of a network: one, a tuple, or a list.

use std::convert::Infallible;

use burn::backend::Capture;
use burn::backend::ir::TensorId;
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::network::{Port, QuantizedModel, Workspace};
use crate::slices::Isa;

/// Inputs or outputs of a network for a batch of samples: a tensor whose first axis is
/// the batch, a tuple of tensors, or for outputs a list of tensors of the same rank.
pub trait Tensors: Clone {
    /// Creates tensors from data, in order.
    #[doc(hidden)]
    fn from_data(data: &mut dyn Iterator<Item = TensorData>, device: &Device) -> Self;

    /// The data of all tensors in f32, in order.
    #[doc(hidden)]
    fn data(self) -> Vec<TensorData>;

    /// The names of the tensors on burn's capture device.
    #[doc(hidden)]
    fn ids(&self) -> Result<Vec<TensorId>, String>;

    /// The device of the first tensor.
    #[doc(hidden)]
    fn device(&self) -> Device;
}

impl<const D: usize> Tensors for Tensor<D> {
    fn from_data(data: &mut dyn Iterator<Item = TensorData>, device: &Device) -> Self {
        Self::from_data(data.next().expect("data for each tensor"), device)
    }

    fn data(self) -> Vec<TensorData> {
        vec![self.into_data().convert_dtype(DType::F32)]
    }

    fn ids(&self) -> Result<Vec<TensorId>, String> {
        let tensor = self.clone().try_into_primitive::<Capture>();
        tensor.map(|tensor| vec![tensor.id()]).map_err(|error| format!("{error:?}"))
    }

    fn device(&self) -> Device {
        self.device()
    }
}

/// A list of outputs of any length.
impl<const D: usize> Tensors for Vec<Tensor<D>> {
    fn from_data(data: &mut dyn Iterator<Item = TensorData>, device: &Device) -> Self {
        data.map(|data| Tensor::<D>::from_data(data, device)).collect()
    }

    fn data(self) -> Vec<TensorData> {
        self.into_iter().flat_map(Tensors::data).collect()
    }

    fn ids(&self) -> Result<Vec<TensorId>, String> {
        let ids: Vec<_> = self.iter().map(Tensors::ids).collect::<Result<_, _>>()?;
        Ok(ids.concat())
    }

    fn device(&self) -> Device {
        self.first().expect("a list has a tensor").device()
    }
}

macro_rules! tuple {
    ($($name:ident $field:tt),+) => {
        impl<$($name: Tensors),+> Tensors for ($($name,)+) {
            fn from_data(data: &mut dyn Iterator<Item = TensorData>, device: &Device) -> Self {
                ($($name::from_data(data, device),)+)
            }

            fn data(self) -> Vec<TensorData> {
                [$(self.$field.data()),+].concat()
            }

            fn ids(&self) -> Result<Vec<TensorId>, String> {
                Ok([$(self.$field.ids()?),+].concat())
            }

            fn device(&self) -> Device {
                self.0.device()
            }
        }

        impl<$($name: Shapes),+> Shapes for ($($name,)+) {
            type Tensors = ($($name::Tensors,)+);

            fn list(&self) -> Vec<Vec<usize>> {
                [$(self.$field.list()),+].concat()
            }
        }
    };
}
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, E 3);

/// The shapes of one sample: `[3, 32, 32]` for a `Tensor<4>`, a tuple of shapes for a tuple of
/// tensors.
pub trait Shapes {
    /// A batch of such samples.
    type Tensors: Tensors;

    /// One shape for each tensor.
    fn list(&self) -> Vec<Vec<usize>>;
}

macro_rules! shape {
    ($($axes:literal $rank:literal),+) => {$(
        impl Shapes for [usize; $axes] {
            type Tensors = Tensor<$rank>;

            fn list(&self) -> Vec<Vec<usize>> {
                vec![self.to_vec()]
            }
        }
    )+};
}
shape!(1 2, 2 3, 3 4, 4 5);

impl QuantizedModel {
    /// Computes the outputs of samples on any device, as [`run_all`](Self::run_all) does on slices.
    ///
    /// The samples are copied to the CPU, and the outputs to the device of the first input, in f32.
    ///
    /// # Shapes
    /// - `x`: a tensor `[batch, …]` for each of [the inputs](Self::inputs)
    /// - returns: a tensor `[batch, …]` for each of [the outputs](Self::outputs)
    ///
    /// # Panics
    /// If a tensor does not have the shape that the model has for it, or the CPU does not have
    /// `isa`.
    #[must_use]
    pub fn forward<I: Tensors, O: Tensors>(
        &self,
        isa: Isa,
        x: I,
        workspace: &mut Workspace,
        threads: usize,
    ) -> O {
        let outputs: Vec<_> = self.outputs().collect();
        let Ok(y) = on_tensors(self.inputs(), &outputs, x, |x, y| -> Result<(), Infallible> {
            self.run_all(isa, x, y, workspace, threads);
            Ok(())
        });
        y
    }
}

/// Runs a network on slices of tensors.
///
/// # Panics
/// If a tensor does not have the shape that the network has for it.
pub(super) fn on_tensors<I: Tensors, O: Tensors, E>(
    inputs: &[Port],
    outputs: &[&Port],
    x: I,
    run: impl FnOnce(&[&[f32]], &mut [&mut [f32]]) -> Result<(), E>,
) -> Result<O, E> {
    let device = x.device();
    let x = x.data();
    let batch = x[0].shape()[0];
    let given: Vec<Vec<usize>> = x.iter().map(|x| x.shape().to_vec()).collect();
    let of_batch = |shape: &[usize]| [&[batch], shape].concat();
    let right: Vec<_> = inputs.iter().map(|port| of_batch(&port.shape)).collect();
    assert_eq!(given, right, "the shapes of the inputs");
    let x: Vec<&[f32]> = x.iter().map(|x| x.as_slice().expect("it was converted to f32")).collect();
    let mut y: Vec<Vec<f32>> =
        outputs.iter().map(|port| vec![0.0; batch * port.numbers()]).collect();
    let mut to: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
    run(&x, &mut to)?;
    let shapes = outputs.iter().map(|port| of_batch(&port.shape));
    let mut data = y.into_iter().zip(shapes).map(|(y, shape)| TensorData::new(y, shape));
    Ok(O::from_data(&mut data, &device))
}
