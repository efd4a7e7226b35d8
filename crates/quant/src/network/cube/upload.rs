//! The kernels of a network's layers on a device.

use cubecl::client::Client;

use super::error::DeviceError;
use crate::kernels::cube::{DeviceKernel, DeviceReason, words_of};
use crate::network::layer::{Form, QuantizedLayer};
use crate::network::model::QuantizedModel;
use crate::network::plan::Arithmetic;
use crate::operation::Around;

/// The most words of one sample of a tensor, so that bytes of it have indices of 32 bits.
const MOST_WORDS: usize = 1 << 28;

/// The kernel of each layer, none for those in f32, after which no layer may run in int8.
pub(super) fn kernels_of(
    model: &QuantizedModel,
    client: &Client,
) -> Result<Vec<Option<Box<dyn DeviceKernel>>>, DeviceError> {
    check_lens(model)?;
    let kernels: Vec<_> = (0..model.layers.len())
        .map(|index| kernel_of(model, index, client))
        .collect::<Result<_, _>>()?;
    match kernels.iter().any(Option::is_some) {
        true => Ok(kernels),
        false => Err(DeviceError::NoInt8Layer),
    }
}

/// Words of one sample of a tensor.
pub(super) fn sample_words(model: &QuantizedModel, tensor: usize) -> usize {
    let channels = model.shapes[tensor][0];
    model.len(tensor) / channels * words_of(channels)
}

fn check_lens(model: &QuantizedModel) -> Result<(), DeviceError> {
    for tensor in 0..model.shapes.len() {
        let words = sample_words(model, tensor);
        if words > MOST_WORDS {
            let cause = DeviceReason::Large { words };
            return Err(match model.layer_of(tensor) {
                Some(layer) => refused(layer, cause),
                None => DeviceError::Layer {
                    layer: model.inputs[tensor].name.clone(),
                    operation: "input",
                    cause,
                },
            });
        }
    }
    Ok(())
}

fn kernel_of(
    model: &QuantizedModel,
    index: usize,
    client: &Client,
) -> Result<Option<Box<dyn DeviceKernel>>, DeviceError> {
    let layer = &model.layers[index];
    let Form::Int8(form) = &layer.form else { return Ok(None) };
    for input in layer.inputs.iter().filter_map(|&input| model.layer_of(input)) {
        if let Arithmetic::F32(reason) = input.arithmetic() {
            let (why, reader) = (reason.to_string(), layer.name.clone());
            return Err(refused(input, DeviceReason::Float { why, reader }));
        }
    }
    let x: Vec<_> = layer.inputs.iter().map(|&input| model.schemes[input]).collect();
    let y = layer.clip.output(model.schemes[model.inputs.len() + index]);
    let weights = form.kernel.weights();
    let around = Around { weights: weights.as_ref(), shapes: &layer.shapes, x: &x, y };
    let kernel = layer.operation.upload(client, &around);
    kernel.map(Some).map_err(|cause| refused(layer, cause))
}

fn refused(layer: &QuantizedLayer, cause: DeviceReason) -> DeviceError {
    DeviceError::Layer { layer: layer.name.clone(), operation: layer.operation.kind(), cause }
}
