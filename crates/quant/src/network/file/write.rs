//! From a model to bytes.

use sha2::{Digest, Sha256};

use super::bytes::Writer;
use super::{MAGIC, VERSION};
use crate::kernels::Pooling;
use crate::network::function::{Binary, Function, Line, Unary};
use crate::network::fuse::{Step, Work};
use crate::network::layer::Source;
use crate::network::model::QuantizedModel;
use crate::network::plan::Reason;
use crate::network::quantization::Calibrated;
use crate::observe::Calibration;

impl QuantizedModel {
    /// The model as the bytes of a file. The same model gives the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Writer::default();
        calibrated(&mut body, &self.calibrated);
        body.0.push(self.joins_sums.into());
        body.number(self.layers.len());
        for (shape, scheme) in self.shapes.iter().zip(&self.schemes) {
            body.numbers(shape);
            body.0.extend(scheme.scale().to_le_bytes());
            body.0.push(scheme.zero_point());
        }
        for layer in &self.layers {
            body.bytes(layer.name.as_bytes());
            body.0.extend([layer.is_rectified, layer.is_zero].map(u8::from));
            body.number(layer.inputs.len());
            body.numbers(&layer.inputs);
            match &layer.source {
                Source::Convolution { geometry, weights, addend } => {
                    body.0.push(0);
                    body.window(geometry);
                    body.weights(weights);
                    body.reals(addend.as_slice());
                }
                Source::Add { factors } => {
                    body.0.push(1);
                    body.reals(factors);
                }
                Source::Pool { geometry, pooling } => {
                    body.0.push(2);
                    body.window(geometry);
                    body.0.push(code_of(*pooling));
                }
                Source::Linear { weights } => {
                    body.0.push(3);
                    body.weights(weights);
                }
                Source::Function(function) => {
                    body.0.push(4);
                    program(&mut body, function);
                }
                Source::Multiply => body.0.push(5),
                Source::Concatenate => body.0.push(6),
                Source::Float { step, reason } => {
                    body.0.push(7);
                    float(&mut body, step, *reason);
                }
            }
        }
        let mut file = MAGIC.to_vec();
        file.extend(VERSION.to_le_bytes());
        file.extend((body.0.len() as u64).to_le_bytes());
        file.extend(Sha256::digest(&body.0));
        file.extend(body.0);
        file
    }
}

fn calibrated(body: &mut Writer, calibrated: &Calibrated) {
    let (kind, fraction) = match calibrated.calibration {
        Calibration::MinMax => (0, 0.0),
        Calibration::Percentile(fraction) => (1, fraction),
        Calibration::Entropy => (2, 0.0),
        Calibration::MeanSquaredError => (3, 0.0),
    };
    body.0.push(kind);
    body.0.extend(fraction.to_le_bytes());
    body.0.extend(calibrated.images.to_le_bytes());
    body.bytes(calibrated.set_hash.as_bytes());
}

const fn code_of(pooling: Pooling) -> u8 {
    match pooling {
        Pooling::Maximum => 0,
        Pooling::MeanOfImage => 1,
        Pooling::MeanWithPadding => 2,
    }
}

fn float(body: &mut Writer, step: &Step, reason: Reason) {
    match reason {
        Reason::NoInt8Form => body.0.push(0),
        Reason::Overflow { channel, sum } => {
            body.0.push(1);
            body.number(channel);
            body.0.extend(sum.to_le_bytes());
        }
        Reason::Kept => body.0.push(2),
        Reason::Tail => body.0.push(3),
    }
    match &step.work {
        Work::Convolution { geometry, weights, bias, addend } => {
            body.0.push(0);
            body.window(geometry);
            body.reals(weights);
            body.reals(bias);
            body.reals(addend.as_slice());
        }
        Work::Add { factors } => {
            body.0.push(1);
            body.reals(factors);
        }
        Work::Pool { geometry, pooling } => {
            body.0.push(2);
            body.window(geometry);
            body.0.push(code_of(*pooling));
        }
        Work::Linear { weights, bias } => {
            body.0.push(3);
            body.reals(weights);
            body.reals(bias);
        }
        Work::Function(function) => {
            body.0.push(4);
            program(body, function);
        }
        Work::Multiply => body.0.push(5),
        Work::Concatenate => body.0.push(6),
        Work::Softmax => body.0.push(7),
    }
}

fn program(body: &mut Writer, function: &Function) {
    body.number(function.lines().len());
    for line in function.lines() {
        match *line {
            Line::X => body.0.push(0),
            Line::Constant(value) => {
                body.0.push(1);
                body.0.extend(value.to_le_bytes());
            }
            Line::Unary(operation, a) => {
                let code = Unary::ALL.iter().position(|&other| other == operation);
                body.0.extend([2, code.expect("all are listed") as u8]);
                body.number(a);
            }
            Line::Binary(operation, both) => {
                let code = Binary::ALL.iter().position(|&other| other == operation);
                body.0.extend([3, code.expect("all are listed") as u8]);
                body.numbers(&both);
            }
            Line::Choose(all) => {
                body.0.push(4);
                body.numbers(&all);
            }
        }
    }
}
