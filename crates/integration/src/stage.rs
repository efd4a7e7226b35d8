//! One stage of both pathways, with the projection of the stream and the gate.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::blend::{Arriving, Weights};
use crate::config::GateKind;
use crate::contribution::Terms;
use crate::gate::Gate;
use crate::residual::Residual;
use crate::stream::Carry;

/// The values between stages.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) color: Tensor<4>,
    pub(crate) brightness: Tensor<4>,
    /// Missing before the first integration.
    pub(crate) stream: Option<Tensor<4>>,
}

/// The parameters of one stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StagePlan {
    pub(crate) blocks: usize,
    pub(crate) channels: [usize; 2],
    pub(crate) stride: usize,
    pub(crate) arriving: Arriving,
    pub(crate) integrates: bool,
    pub(crate) gate: GateKind,
}

/// Residual blocks of both pathways, then the integration, if there is one.
#[derive(Module, Debug)]
pub(crate) struct Stage {
    pub(crate) color: Vec<Residual>,
    pub(crate) brightness: Vec<Residual>,
    pub(crate) carry: Option<Carry>,
    gate: Option<Gate>,
}

impl Stage {
    pub(crate) fn new(plan: StagePlan, device: &Device) -> Self {
        let StagePlan { blocks, channels, stride, arriving, integrates, gate } = plan;
        let [_, output] = channels;
        let pathway = || {
            let first = Residual::new(channels, stride, device);
            let rest = (1..blocks).map(|_| Residual::new([output, output], 1, device));
            std::iter::once(first).chain(rest).collect()
        };
        let carry = || Carry::new(channels, stride, device);
        Self {
            color: pathway(),
            brightness: pathway(),
            carry: (arriving == Arriving::Stream).then(carry),
            gate: integrates.then(|| Gate::new(output, arriving, gate, device)),
        }
    }

    /// The values for the next stage, and the weights of the integration, if there is one.
    pub(crate) fn forward(&self, flow: Flow) -> (Flow, Option<Weights>) {
        let Flow { color, brightness, stream } = self.before_gate(flow);
        let Some(gate) = &self.gate else { return (Flow { color, brightness, stream }, None) };
        let (stream, weights) = gate.forward(color.clone(), brightness.clone(), stream);
        (Flow { color, brightness, stream: Some(stream) }, Some(weights))
    }

    /// The same values, and what the integration adds up, if there is one.
    pub(crate) fn terms(&self, flow: Flow) -> (Flow, Option<Terms>) {
        let Flow { color, brightness, stream } = self.before_gate(flow);
        let Some(gate) = &self.gate else { return (Flow { color, brightness, stream }, None) };
        let (stream, terms) = gate.terms(color.clone(), brightness.clone(), stream);
        (Flow { color, brightness, stream: Some(stream) }, Some(terms))
    }

    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    fn before_gate(&self, flow: Flow) -> Flow {
        let color = self.color.iter().fold(flow.color, |x, block| block.forward(x));
        let brightness = self.brightness.iter().fold(flow.brightness, |x, block| block.forward(x));
        let stream = match (&self.carry, flow.stream) {
            (Some(carry), Some(stream)) => Some(carry.forward(stream)),
            _ => None,
        };
        Flow { color, brightness, stream }
    }
}
