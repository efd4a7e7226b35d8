//! From the graph of a file to a model: the arithmetic of each step, and its integer weights.

use std::collections::HashMap;

use super::error::{ImportError, Read};
use super::importer::{GivenLayer, Importer};
use super::rounding::{Readings, Rounded};
use crate::network::fuse::{Step, Steps};
use crate::network::layer::{Chosen, Form, QuantizedLayer};
use crate::network::model::QuantizedModel;
use crate::network::observation::nearest;
use crate::network::plan::Reason;
use crate::network::quantization::Calibrated;
use crate::observe::Calibration;
use crate::operation::PackError;
use crate::scheme::ActivationScheme;
use crate::weights::{QuantizedWeights, WeightError, WeightFormat};

/// Residual sums are fused into convolutions that no codes follow.
const JOINS_SUMS: bool = true;

impl Importer<'_> {
    /// The model of the graph.
    pub(super) fn assemble(mut self) -> Read<QuantizedModel> {
        self.round_earlier();
        let mut steps = Steps::new(&self.graph, JOINS_SUMS);
        if steps.list.is_empty() || steps.inputs.is_empty() {
            return Err(ImportError::NoLayer);
        }
        let Self { graph, layers, outputs, .. } = self;
        let named = graph.nodes.iter().enumerate();
        let named: HashMap<&str, usize> =
            named.map(|(index, node)| (node.name.as_str(), index)).collect();
        let parts = |step: &Step| -> Vec<usize> {
            step.name.split('+').filter_map(|part| named.get(part).copied()).collect()
        };
        let parts: Vec<Vec<usize>> = steps.list.iter().map(parts).collect();
        let readings = Readings::new(&graph, &steps, &parts, &layers, &outputs);
        let mut packing = Packing { steps: &steps, schemes: Vec::new() };
        let inputs = steps.input_schemes.iter();
        packing.schemes.extend(inputs.map(|scheme| scheme.ok_or_else(whole_numbers)));
        let mut packed = Vec::new();
        for (index, parts) in parts.iter().enumerate() {
            let of_step: Vec<&GivenLayer> = parts.iter().map(|&part| &layers[part]).collect();
            packed.push(packing.layer(index, &of_step, &readings)?);
        }
        let schemes = packing.schemes.iter().map(|scheme| match scheme {
            Ok(scheme) | Err(scheme) => *scheme,
        });
        let schemes: Vec<ActivationScheme> = schemes.collect();
        let Rounded { layers, schemes, .. } =
            Rounded::try_new(&mut steps, packed, &schemes, &readings)?;
        let Steps { inputs, outputs, .. } = steps;
        let calibrated =
            Calibrated { calibration: Calibration::MinMax, samples: 0, set_hash: String::new() };
        Ok(QuantizedModel::new(inputs, outputs, layers, schemes, JOINS_SUMS, calibrated))
    }
}

/// The scheme of a tensor that has none in the file.
fn whole_numbers() -> ActivationScheme {
    ActivationScheme::try_new(1.0, 128).expect("1 is a positive normal number")
}

/// Steps on their way to layers.
struct Packing<'a> {
    steps: &'a Steps,
    /// The scheme of each tensor so far; an error has one that the file does not.
    schemes: Vec<Result<ActivationScheme, ActivationScheme>>,
}

impl Packing<'_> {
    fn layer(
        &mut self,
        index: usize,
        given: &[&GivenLayer],
        readings: &Readings,
    ) -> Read<QuantizedLayer> {
        let step = &self.steps.list[index];
        let x: Vec<_> = step.inputs.iter().map(|&input| self.schemes[input]).collect();
        let reads_codes = x.iter().all(Result::is_ok) && !readings.readers.contains(&index);
        let x: Vec<ActivationScheme> =
            x.into_iter().map(|(Ok(scheme) | Err(scheme))| scheme).collect();
        let has_integers = !given.iter().any(|layer| layer.is_float);
        let weights = match reads_codes && has_integers {
            true => integers(step, given, x[0]),
            false => Ok(None),
        };
        let of_weights = match &weights {
            Ok(Some(chosen)) => Some(&chosen.weights),
            _ => None,
        };
        let is_output = readings.unrounded_outputs.contains(&index);
        let own = match step.scheme {
            _ if reads_codes && step.work.operation.keeps_scheme() => Some(x[0]),
            Some(scheme) if !is_output => Some(scheme),
            None if is_output && step.work.operation.is_product() && step.clip.is_identity() => {
                of_weights.and_then(|weights| every_sum(weights, x[0]))
            }
            _ => None,
        };
        let is_int8 =
            reads_codes && has_integers && own.is_some() && !readings.results.contains(&index);
        let scheme = own.or(step.scheme);
        self.schemes.push(scheme.ok_or_else(whole_numbers));
        let y = scheme.unwrap_or_else(whole_numbers);
        let kept = (!is_int8).then_some(Reason::Kept);
        let form = Form::try_new(step, kept, weights, &x, y);
        Ok(finished(step, form.map_err(|error| refused(step, error))?))
    }
}

/// A step that is packed.
pub(super) fn finished(step: &Step, form: Form) -> QuantizedLayer {
    QuantizedLayer {
        name: step.name.clone(),
        operation: step.work.operation.clone(),
        form,
        inputs: step.inputs.clone(),
        shapes: step.shapes.clone(),
        multiply_adds: step.multiply_adds(),
        clip: step.clip,
        is_zero: false,
    }
}

/// The error of a step that cannot be packed.
pub(super) fn refused(step: &Step, error: PackError) -> ImportError {
    let layer = step.name.clone();
    match error {
        PackError::Weights(cause) => ImportError::Weights { layer, cause },
        PackError::Factor(cause) => ImportError::Summand { layer, cause },
    }
}

/// The weights of the file, if nothing was merged with them, or those of a scale and shift.
fn integers(
    step: &Step,
    given: &[&GivenLayer],
    input: ActivationScheme,
) -> Result<Option<Chosen>, WeightError> {
    if !step.has_weights() {
        return Ok(None);
    }
    let parameters = &step.work.parameters;
    let of_file = given.iter().find_map(|layer| layer.weights.as_ref());
    match of_file.filter(|weights| weights.are_those(&parameters.weights, &parameters.bias)) {
        Some(of_file) => {
            let weights = of_file.quantized(input)?;
            Ok(Some(Chosen { weights, coding: None }))
        }
        None => nearest(step, WeightFormat::INT8, input),
    }
}

/// A scheme that covers every sum that inputs of a scheme can lead to.
fn every_sum(weights: &QuantizedWeights, input: ActivationScheme) -> Option<ActivationScheme> {
    let channels = weights.values().chunks_exact(weights.each()).zip(weights.scales());
    let step = f64::from(input.scale());
    let most = channels.zip(weights.bias()).map(|((values, &scale), &bias)| {
        let sum: f64 = values.iter().map(|&value| f64::from(value).abs()).sum();
        (255.0 * sum + f64::from(bias).abs()) * f64::from(scale) * step
    });
    let most = most.fold(0.0, f64::max) as f32;
    ActivationScheme::try_from_range(-most, most).ok()
}
