//! Values of a batch on a device: one tensor, several, or none.

use burn::tensor::kind::Basic;
use burn::tensor::{Bool, Device, FloatDType, Int, Tensor};

/// What is done with each tensor of [`Tensors::map_tensors`], of any rank and kind.
pub trait TensorMap {
    /// Returns what takes the tensor's place: a tensor of the same rank and kind.
    fn map<const D: usize, K: Basic + 'static>(&mut self, tensor: Tensor<D, K>) -> Tensor<D, K>;
}

/// One tensor of any rank and kind, or several of them: `()`, [`Option`], [`Vec`] and tuples of up
/// to four.
///
/// Inputs, targets and outputs of a [`Task`](crate::Task) are of this kind. A struct of tensors
/// implements it field by field.
pub trait Tensors: Clone {
    /// The same values with every floating-point tensor in `dtype`; others are left as they are.
    #[must_use]
    fn cast_floats(self, dtype: FloatDType) -> Self;

    /// The same values without a graph, on the device without autodiff.
    #[must_use]
    fn without_graph(self) -> Self;

    /// The device of the first tensor; `None` without one.
    fn device(&self) -> Option<Device>;

    /// Every number of every floating-point tensor, in their order.
    ///
    /// Reads the device: for comparing results and error messages, not for every step.
    fn to_floats(&self) -> Vec<f32>;

    /// Every number of every tensor, in their order: integers as f64, and 1 for true.
    ///
    /// Reads the device.
    fn to_numbers(&self) -> Vec<f64>;

    /// The shape of every floating-point tensor, in their order.
    fn shapes(&self) -> Vec<Vec<usize>>;

    /// The same values with every tensor, of any kind, replaced by what `map` returns for it; the
    /// order is always the same.
    #[must_use]
    fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self;

    /// Whether no floating-point tensor contains NaN or infinity; reads the device.
    fn all_finite(&self) -> bool {
        self.to_floats().into_iter().all(f32::is_finite)
    }
}

impl<const D: usize> Tensors for Tensor<D> {
    fn cast_floats(self, dtype: FloatDType) -> Self {
        self.cast(dtype)
    }

    fn without_graph(self) -> Self {
        self.without_autodiff()
    }

    fn device(&self) -> Option<Device> {
        Some(Tensor::device(self))
    }

    fn to_floats(&self) -> Vec<f32> {
        self.to_data().iter().collect()
    }

    fn to_numbers(&self) -> Vec<f64> {
        self.to_data().iter().collect()
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        vec![self.dims().to_vec()]
    }

    fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self {
        map.map(self)
    }
}

macro_rules! tensors_without_fractions {
    ($($kind:ty),+) => {$(
        impl<const D: usize> Tensors for Tensor<D, $kind> {
            fn cast_floats(self, _: FloatDType) -> Self {
                self
            }

            fn without_graph(self) -> Self {
                self.without_autodiff()
            }

            fn device(&self) -> Option<Device> {
                Some(Tensor::device(self))
            }

            fn to_floats(&self) -> Vec<f32> {
                Vec::new()
            }

            fn to_numbers(&self) -> Vec<f64> {
                self.to_data().iter().collect()
            }

            fn shapes(&self) -> Vec<Vec<usize>> {
                Vec::new()
            }

            fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self {
                map.map(self)
            }
        }
    )+};
}

tensors_without_fractions!(Int, Bool);

impl Tensors for () {
    fn cast_floats(self, _: FloatDType) -> Self {}

    fn without_graph(self) -> Self {}

    fn device(&self) -> Option<Device> {
        None
    }

    fn to_floats(&self) -> Vec<f32> {
        Vec::new()
    }

    fn to_numbers(&self) -> Vec<f64> {
        Vec::new()
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        Vec::new()
    }

    fn map_tensors<V: TensorMap>(self, _: &mut V) -> Self {}
}

impl<T: Tensors> Tensors for Option<T> {
    fn cast_floats(self, dtype: FloatDType) -> Self {
        self.map(|tensors| tensors.cast_floats(dtype))
    }

    fn without_graph(self) -> Self {
        self.map(T::without_graph)
    }

    fn device(&self) -> Option<Device> {
        self.as_ref().and_then(T::device)
    }

    fn to_floats(&self) -> Vec<f32> {
        self.iter().flat_map(T::to_floats).collect()
    }

    fn to_numbers(&self) -> Vec<f64> {
        self.iter().flat_map(T::to_numbers).collect()
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        self.iter().flat_map(T::shapes).collect()
    }

    fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self {
        self.map(|tensors| tensors.map_tensors(map))
    }
}

impl<T: Tensors> Tensors for Vec<T> {
    fn cast_floats(self, dtype: FloatDType) -> Self {
        self.into_iter().map(|tensors| tensors.cast_floats(dtype)).collect()
    }

    fn without_graph(self) -> Self {
        self.into_iter().map(T::without_graph).collect()
    }

    fn device(&self) -> Option<Device> {
        self.iter().find_map(T::device)
    }

    fn to_floats(&self) -> Vec<f32> {
        self.iter().flat_map(T::to_floats).collect()
    }

    fn to_numbers(&self) -> Vec<f64> {
        self.iter().flat_map(T::to_numbers).collect()
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        self.iter().flat_map(T::shapes).collect()
    }

    fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self {
        self.into_iter().map(|tensors| tensors.map_tensors(map)).collect()
    }
}

macro_rules! tensors_of_tuple {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Tensors),+> Tensors for ($($name,)+) {
            fn cast_floats(self, dtype: FloatDType) -> Self {
                ($(self.$at.cast_floats(dtype),)+)
            }

            fn without_graph(self) -> Self {
                ($(self.$at.without_graph(),)+)
            }

            fn device(&self) -> Option<Device> {
                None$(.or_else(|| self.$at.device()))+
            }

            fn to_floats(&self) -> Vec<f32> {
                [$(self.$at.to_floats()),+].concat()
            }

            fn to_numbers(&self) -> Vec<f64> {
                [$(self.$at.to_numbers()),+].concat()
            }

            fn shapes(&self) -> Vec<Vec<usize>> {
                [$(self.$at.shapes()),+].concat()
            }

            fn map_tensors<V: TensorMap>(self, map: &mut V) -> Self {
                ($(self.$at.map_tensors(map),)+)
            }
        }
    };
}

tensors_of_tuple!(A 0, B 1);
tensors_of_tuple!(A 0, B 1, C 2);
tensors_of_tuple!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fractions_are_cast_and_checked() {
        let device = Device::flex();
        let floats = Tensor::<2>::from_floats([[1.0, f32::NAN]], &device);
        let labels = Tensor::<1, Int>::from_ints([3], &device);
        let values = (floats, Some(labels), vec![Tensor::<1>::ones([2], &device)]);
        assert_eq!(values.1.to_numbers(), [3.0]);
        assert_eq!(values.2.to_numbers(), [1.0, 1.0]);
        assert!(!values.all_finite() && values.1.all_finite() && values.2.all_finite());
        let narrow = values.cast_floats(FloatDType::F64);
        assert_eq!(FloatDType::from(narrow.0.dtype()), FloatDType::F64);
        assert_eq!(FloatDType::from(narrow.2[0].dtype()), FloatDType::F64);
        assert_eq!(Tensors::device(&narrow), Some(device));
        assert_eq!(().device(), None);
        assert_eq!(narrow.shapes(), [vec![1, 2], vec![2]]);
    }

    /// Notes the rank of each tensor, and negates floating-point ones.
    struct Negate(Vec<usize>);

    impl TensorMap for Negate {
        fn map<const D: usize, K: Basic + 'static>(
            &mut self,
            tensor: Tensor<D, K>,
        ) -> Tensor<D, K> {
            self.0.push(D);
            let boxed: Box<dyn std::any::Any> = Box::new(tensor.clone());
            match boxed.downcast::<Tensor<D>>() {
                Ok(floats) => {
                    let negated: Box<dyn std::any::Any> = Box::new(floats.neg());
                    *negated.downcast::<Tensor<D, K>>().expect("the kind of the argument")
                }
                Err(_) => tensor,
            }
        }
    }

    #[test]
    fn every_tensor_is_mapped_in_order_and_keeps_its_place() {
        let device = Device::flex();
        let floats = Tensor::<2>::from_floats([[1.0, -2.0]], &device);
        let labels = Tensor::<1, Int>::from_ints([3], &device);
        let flags = Tensor::<3, Bool>::from_bool([[[true]]], &device);
        let last = vec![Some(Tensor::<4>::ones([1, 1, 1, 2], &device)), None];
        let mut negate = Negate(Vec::new());
        let mapped = ((floats, labels), flags, (), last).map_tensors(&mut negate);
        assert_eq!(negate.0, [2, 1, 3, 4]);
        assert_eq!(mapped.0.0.to_numbers(), [-1.0, 2.0]);
        assert_eq!(mapped.0.1.to_numbers(), [3.0]);
        assert_eq!(mapped.1.to_numbers(), [1.0]);
        assert_eq!(mapped.3.to_numbers(), [-1.0, -1.0]);
        assert!(mapped.3[1].is_none());
    }
}
