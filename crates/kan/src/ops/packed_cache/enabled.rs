//! Packed weights of the kernels on the CPU.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use burn::backend::flex::FlexTensor;
use burn::tensor::Bytes;

use crate::kernels::{Isa, LayerGeometry, PackedLayer, Weights};

/// The packed weights of a layer, which clones of the layer share.
///
/// The second forward pass with the same parameters packs them: a layer that is evaluated once, or
/// trained between two passes, does not pay for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackedCache(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    key: Option<CacheKey>,
    packed: Option<Arc<PackedLayer>>,
}

/// What the weights were packed of.
///
/// A weak reference keeps the place of a parameter's buffer taken but not its numbers. While there is
/// one, flex does not write the numbers there: `Arc::get_mut` refuses, and `Arc::make_mut` moves them
/// to another place. So the same place has the same numbers. Tensors that begin within a buffer are
/// copied before they get here, and never match.
#[derive(Debug)]
struct CacheKey {
    isa: Isa,
    geometry: Arc<LayerGeometry>,
    buffers: [Option<Weak<Bytes>>; 4],
}

impl CacheKey {
    fn matches(
        &self,
        isa: Isa,
        geometry: &Arc<LayerGeometry>,
        tensors: &[Option<FlexTensor>; 4],
    ) -> bool {
        let is_same = |(buffer, tensor): (&Option<Weak<Bytes>>, &Option<FlexTensor>)| match tensor {
            Some(tensor) => buffer
                .as_ref()
                .is_some_and(|buffer| buffer.as_ptr() == Arc::as_ptr(&tensor.data_arc())),
            None => buffer.is_none(),
        };
        self.isa == isa
            && Arc::ptr_eq(&self.geometry, geometry)
            && self.buffers.iter().zip(tensors).all(is_same)
    }
}

impl PackedCache {
    /// The packed weights of coefficients, base weights, factors and bias, if the last pass had the
    /// same.
    ///
    /// The tensors are contiguous, of f32, and fit the geometry.
    pub(crate) fn packed(
        &self,
        isa: Isa,
        geometry: &Arc<LayerGeometry>,
        tensors: &[Option<FlexTensor>; 4],
    ) -> Option<Arc<PackedLayer>> {
        let mut state = self.state();
        if !state.key.as_ref().is_some_and(|key| key.matches(isa, geometry, tensors)) {
            let buffers = tensors
                .each_ref()
                .map(|tensor| tensor.as_ref().map(|tensor| Arc::downgrade(&tensor.data_arc())));
            let key = CacheKey { isa, geometry: Arc::clone(geometry), buffers };
            *state = State { key: Some(key), packed: None };
            return None;
        }
        if state.packed.is_none() {
            let [spline, base, scaler, bias] =
                tensors.each_ref().map(|tensor| Some(tensor.as_ref()?.storage()));
            let weights = Weights { spline: spline.unwrap_or_default(), base, scaler, bias };
            state.packed = PackedLayer::try_new(isa, geometry, weights).ok().map(Arc::new);
        }
        state.packed.clone()
    }

    /// Drops the packed weights: a layer in training has no use for them.
    pub(crate) fn clear(&self) {
        *self.state() = State::default();
    }

    /// Bytes of the packed weights that are there.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.state().packed.as_ref().map_or(0, |packed| packed.bytes())
    }

    /// A panic in a pass leaves nothing that does not fit together.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
