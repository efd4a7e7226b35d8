//! Assignment of tensors to buffers.

use super::layer::QuantizedLayer;

/// The buffer of each tensor, and the length of each buffer; a buffer is used again after the last
/// layer that reads its tensor.
///
/// The outputs of a network are copied out of their buffers as soon as they are computed.
pub(super) fn assign_buffers(
    inputs: usize,
    layers: &[QuantizedLayer],
    shapes: &[Vec<usize>],
) -> (Vec<usize>, Vec<usize>) {
    // The buffer of a tensor that no layer reads is free at once.
    let mut last_readers: Vec<usize> = (0..shapes.len()).collect();
    for (index, layer) in layers.iter().enumerate() {
        layer.inputs.iter().for_each(|&input| last_readers[input] = inputs + index);
    }
    let mut last_read = vec![Vec::new(); shapes.len()];
    for (tensor, &reader) in last_readers.iter().enumerate() {
        last_read[reader].push(tensor);
    }
    let (mut buffers, mut lens, mut free) = (Vec::new(), Vec::new(), Vec::new());
    for (tensor, shape) in shapes.iter().enumerate() {
        let buffer = free.pop().unwrap_or_else(|| {
            lens.push(0);
            lens.len() - 1
        });
        lens[buffer] = lens[buffer].max(shape.iter().product::<usize>());
        buffers.push(buffer);
        // The layer that computed this tensor has read its inputs.
        free.extend(last_read[tensor].iter().map(|&before| buffers[before]));
    }
    (buffers, lens)
}
