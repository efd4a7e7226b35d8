//! Assignment of tensors to buffers.

use super::layer::QuantizedLayer;

/// A buffer for each tensor; a buffer serves again once its tensor's last reader is through.
///
/// What a network gives leaves its buffer when it is there.
pub(super) fn assign_slots(
    inputs: usize,
    layers: &[QuantizedLayer],
    shapes: &[Vec<usize>],
) -> (Vec<usize>, Vec<usize>) {
    // What nothing reads is done with at once.
    let last_reader = |tensor: usize| {
        let reader = layers.iter().rposition(|layer| layer.inputs.contains(&tensor));
        reader.map_or(tensor, |layer| inputs + layer)
    };
    let (mut slots, mut lens, mut free) = (Vec::new(), Vec::new(), Vec::new());
    for (tensor, shape) in shapes.iter().enumerate() {
        let slot = free.pop().unwrap_or_else(|| {
            lens.push(0);
            lens.len() - 1
        });
        lens[slot] = lens[slot].max(shape.iter().product::<usize>());
        slots.push(slot);
        // The layer that gave this tensor is through with what it read.
        let is_through = |&before: &usize| last_reader(before) == tensor;
        free.extend((0..=tensor).filter(is_through).map(|before| slots[before]));
    }
    (slots, lens)
}
