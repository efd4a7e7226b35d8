//! Cross-layer equalization: the ranges of a layer's channels are made alike.

use std::sync::Arc;

use super::calibration::visit;
use super::error::QuantizeError;
use super::float::FloatRun;
use super::fuse::Steps;
use super::graph::{Graph, Layer};
use super::samples::Samples;
use crate::operation::{Parameters, Work};

/// A layer with weights whose result, scaled and clipped at 0 and above at most, only one layer
/// reads.
#[derive(Debug, Clone, PartialEq)]
struct Pair {
    /// The layer.
    first: usize,
    /// Batch norms after it.
    affine: Vec<usize>,
    /// What the second layer reads.
    between: usize,
    /// Where it is clipped above, 6 for `ReLU6`; infinity if nowhere.
    limit: f32,
    second: usize,
}

impl Graph {
    /// The same network with channels of similar ranges: the outputs are the same up to rounding in
    /// f32, and int8 with one scale for each tensor loses less.
    ///
    /// Where the result of a convolution or linear layer reaches only one other, through batch norms
    /// and rectifiers at most, each channel is divided by a positive number and the weights that read
    /// it are multiplied by it. The number makes the greatest magnitude of the channel over the
    /// samples equal to that of the weights, or to that of the other channels if the second layer is
    /// depthwise, whose weights have a scale for each channel anyway.
    ///
    /// With an upper limit between them, such as that of `ReLU6`, the outputs are the same for these
    /// samples only. Channels that reach the limit keep their scale. The others are multiplied, so
    /// that none exceeds the limit: in their old units they have a lower limit, which is at least
    /// their greatest number of the samples.
    ///
    /// # Errors
    /// [`QuantizeError`] for a graph without layers, and samples that are missing or incomplete.
    ///
    /// # Source
    /// Nagel et al. 2019, arXiv:1906.04721, section 4.1, with the ranges of activations instead of
    /// weights as in Xiao et al. 2023, arXiv:2211.10438.
    pub fn equalized<B: Samples>(
        &self,
        batches: impl IntoIterator<Item = B>,
    ) -> Result<Self, QuantizeError> {
        if !self.nodes.iter().any(|node| !matches!(node.layer, Layer::Input)) {
            return Err(QuantizeError::NoLayer);
        }
        let pairs = self.pairs();
        let ranges = self.ranges(&pairs, batches)?;
        let mut graph = self.clone();
        for (pair, ranges) in pairs.iter().zip(ranges) {
            graph.equalize(pair, &ranges);
        }
        Ok(graph)
    }

    fn pairs(&self) -> Vec<Pair> {
        let mut readers = vec![Vec::new(); self.nodes.len()];
        for (reader, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|&input| readers[input].push(reader));
        }
        let outputs = self.outputs();
        let only_reader = |node: usize| match readers[node][..] {
            [reader] if outputs.iter().all(|(_, value)| value.0 != node) => Some(reader),
            _ => None,
        };
        let pair = |first: usize| {
            let Layer::Work(work) = &self.nodes[first].layer else { return None };
            if !has_weights(work) {
                return None;
            }
            let (mut between, mut affine, mut limit) = (first, Vec::new(), f32::INFINITY);
            loop {
                let reader = only_reader(between)?;
                match &self.nodes[reader].layer {
                    // The limit is in the units of what is clipped.
                    Layer::Affine(_) if limit == f32::INFINITY => affine.push(reader),
                    Layer::Clip(clip) if clip.limits()[0] == 0.0 => {
                        limit = limit.min(clip.limits()[1]);
                    }
                    Layer::Work(work)
                        if has_weights(work) && self.nodes[reader].inputs.len() == 1 =>
                    {
                        return Some(Pair { first, affine, between, limit, second: reader });
                    }
                    _ => return None,
                }
                between = reader;
            }
        };
        (0..self.nodes.len()).filter_map(pair).collect()
    }

    /// The greatest magnitude of each channel between the layers of each pair.
    fn ranges<B: Samples>(
        &self,
        pairs: &[Pair],
        batches: impl IntoIterator<Item = B>,
    ) -> Result<Vec<Vec<f32>>, QuantizeError> {
        let watched = self.with_outputs(pairs.iter().map(|pair| pair.between));
        let steps = Steps::new(&watched, false);
        let mut run = FloatRun::new(&steps);
        let channels = pairs.iter().map(|pair| self.nodes[pair.between].shape[0]);
        let mut ranges: Vec<Vec<f32>> = channels.map(|channels| vec![0.0; channels]).collect();
        visit(&steps, batches, |x| {
            run.run(&steps, x);
            for (ranges, output) in ranges.iter_mut().zip(&steps.outputs) {
                let numbers = &run.tensors[output.tensor];
                let pixels = numbers.len() / ranges.len();
                for (range, numbers) in ranges.iter_mut().zip(numbers.chunks_exact(pixels)) {
                    *range = numbers.iter().fold(*range, |most, x| most.max(x.abs()));
                }
            }
            Ok(())
        })?;
        Ok(ranges)
    }

    /// Divides the channels between two layers, and multiplies the weights that read them.
    fn equalize(&mut self, pair: &Pair, ranges: &[f32]) {
        let Layer::Work(second) = &self.nodes[pair.second].layer else { return };
        let divisors = divisors(ranges, pair.limit, &second.parameters, &second.operation);
        let Some(divisors) = divisors else { return };
        let by = |weights: Vec<f32>| Parameters { bias: vec![0.0; weights.len()], weights };
        let inverse = by(divisors.iter().map(|divisor| divisor.recip()).collect());
        let second = second.operation.scale_input(&second.parameters, 0, &by(divisors));
        let Layer::Work(first) = &self.nodes[pair.first].layer else { return };
        let scaled = first.operation.scale_output(&first.parameters, &inverse);
        let (Some(parameters), Some(second)) = (scaled, second) else { return };
        let first = Work { operation: first.operation.clone(), parameters: Arc::new(parameters) };
        self.nodes[pair.first].layer = Layer::Work(first);
        self.nodes[pair.second].layer = Layer::Work(second);
        for &node in &pair.affine {
            // What it adds is in the units of its result.
            if let Layer::Affine(affine) = &mut self.nodes[node].layer {
                let bias = &mut Arc::make_mut(affine).bias;
                bias.iter_mut().zip(&inverse.weights).for_each(|(bias, factor)| *bias *= factor);
            }
        }
    }
}

fn has_weights(work: &Work) -> bool {
    !work.parameters.weights.is_empty()
}

/// The number for each channel; none if all channels are zero.
///
/// With a limit, channels that reach it have 1, and others at most 1.
fn divisors(
    ranges: &[f32],
    limit: f32,
    parameters: &Parameters,
    operation: &Arc<dyn crate::operation::Operation>,
) -> Option<Vec<f32>> {
    let channels = ranges.len();
    let Parameters { weights, bias } = parameters;
    let outputs = bias.len();
    let groups = operation.groups();
    let inputs = channels / groups;
    let each = weights.len() / outputs / inputs;
    let mut of_weights = vec![0.0_f32; channels];
    for (output, weights) in weights.chunks_exact(inputs * each).enumerate() {
        let group = output / (outputs / groups);
        for (input, weights) in weights.chunks_exact(each).enumerate() {
            let range = &mut of_weights[group * inputs + input];
            *range = weights.iter().fold(*range, |most, w| most.max(w.abs()));
        }
    }
    let is_depthwise = inputs == 1;
    let logarithm = |(&range, &of_weights): (&f32, &f32)| {
        if range == 0.0 || of_weights == 0.0 {
            return None;
        }
        let (range, of_weights) = (f64::from(range).log2(), f64::from(of_weights).log2());
        Some(if is_depthwise { range } else { 0.5 * (range - of_weights) })
    };
    let logarithms: Vec<Option<f64>> = ranges.iter().zip(&of_weights).map(logarithm).collect();
    let known: Vec<f64> = logarithms.iter().copied().flatten().collect();
    if known.is_empty() {
        return None;
    }
    // Divisors around 1 keep the sizes of the parameters.
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let limited = logarithms.iter().zip(ranges).filter(|(_, range)| **range >= limit);
    let limited: Vec<f64> = limited.filter_map(|(logarithm, _)| *logarithm).collect();
    let reference = match limited.is_empty() {
        _ if limit.is_finite() && is_depthwise => f64::from(limit).log2(),
        true => mean(&known),
        false => mean(&limited),
    };
    let divisor = |(logarithm, &range): (Option<f64>, &f32)| match logarithm {
        Some(logarithm) if range < limit => {
            let divisor = (logarithm - reference).clamp(-60.0, 60.0).exp2() as f32;
            if limit.is_finite() { divisor.clamp(range / limit, 1.0) } else { divisor }
        }
        _ => 1.0,
    };
    Some(logarithms.into_iter().zip(ranges).map(divisor).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::Clip;
    use crate::operation::Window;

    /// A convolution, a batch norm and a clip, then a depthwise convolution and a linear layer;
    /// channel 1 of the first is large, and the weights that read it are small.
    fn graph(factor: f32, clip: Clip) -> Graph {
        let mut graph = Graph::new();
        let x = graph.input("x", &[2, 4, 4]).expect("valid");
        let point = Window::new([1, 1]);
        let weights = [0.5, -0.3, 0.2, 0.8, -0.6, 0.4];
        let y = graph.convolution("first", x, point, 1, &weights, &[0.1, 0.2, 0.0]);
        let y =
            graph.affine("norm", y.expect("valid"), &[1.0, factor, 1.5], &[0.1, 0.3 * factor, 0.0]);
        let y = graph.clip("relu", y.expect("valid"), clip);
        let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
        let mut depthwise: Vec<f32> = (0..27).map(|i| (i % 5) as f32 / 4.0 - 0.4).collect();
        depthwise[9..18].iter_mut().for_each(|w| *w /= factor);
        let y = graph.convolution("deep", y, same, 3, &depthwise, &[0.0; 3]).expect("valid");
        let y = graph.rectifier("relu2", y);
        let last: Vec<f32> = (0..2 * 48).map(|i| (i % 7) as f32 / 6.0 - 0.5).collect();
        graph.linear("last", y, &last, &[0.0, 0.1]).expect("valid");
        graph
    }

    fn samples() -> Vec<f32> {
        (0..32 * 8).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect()
    }

    #[test]
    fn the_outputs_are_the_same_and_the_ranges_alike() {
        let (graph, x) = (graph(64.0, Clip::RECTIFIER), samples());
        let equal = graph.equalized([&x]).expect("valid");
        let (before, after) = (graph.forward(&x), equal.forward(&x));
        for (a, b) in before[0].iter().zip(&after[0]) {
            assert!((a - b).abs() < 1e-4 * (1.0 + a.abs()), "{a} {b}");
        }
        let pairs = graph.pairs();
        assert_eq!(pairs.len(), 2, "{pairs:?}");
        let spread = |graph: &Graph| {
            let ranges = graph.ranges(&pairs[..1], [&x]).expect("valid").remove(0);
            let most = ranges.iter().copied().fold(0.0, f32::max);
            most / ranges.iter().copied().fold(f32::INFINITY, f32::min)
        };
        assert!(spread(&graph) > 30.0, "{}", spread(&graph));
        assert!((spread(&equal) - 1.0).abs() < 1e-3, "{}", spread(&equal));
    }

    #[test]
    fn channels_that_relu6_cuts_keep_their_size_and_others_come_up_to_them() {
        let (graph, x) = (graph(64.0, Clip::RELU6), samples());
        let equal = graph.equalized([&x]).expect("valid");
        let (before, after) = (graph.forward(&x), equal.forward(&x));
        for (a, b) in before[0].iter().zip(&after[0]) {
            assert!((a - b).abs() < 1e-4 * (1.0 + a.abs()), "{a} {b}");
        }
        let pairs = graph.pairs();
        let of = |graph: &Graph| graph.ranges(&pairs[..1], [&x]).expect("valid").remove(0);
        let (before, after) = (of(&graph), of(&equal));
        assert_eq!(before[1], 6.0);
        assert!(before[0] < 2.0 && before[2] < 2.0, "{before:?}");
        assert!(after.iter().all(|range| (range - 6.0).abs() < 1e-4), "{after:?}");
        // The linear layer's weights are small for the channels that do not reach the limit.
        let mut dense = Graph::new();
        let x = dense.input("x", &[2]).expect("valid");
        let first = [8.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.25];
        let y = dense.linear("first", x, &first, &[0.0; 4]).expect("valid");
        let y = dense.clip("relu6", y, Clip::RELU6);
        dense.linear("last", y, &[1.0, 8.0, 0.1, 4.0], &[0.0]).expect("valid");
        let x = [1.0, 1.0, 0.5, 0.25];
        let equal = dense.equalized([&x]).expect("valid");
        let (before, after) = (dense.forward(&x), equal.forward(&x));
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
        assert!(before[0].iter().zip(&after[0]).all(near), "{before:?} {after:?}");
        let ranges = equal.ranges(&equal.pairs(), [&x]).expect("valid").remove(0);
        // Divisors are √(range / weight) over that of the first channel, and at least range / 6.
        let right = [6.0, 6.0, 0.3_f32.sqrt(), 6.0_f32.sqrt()];
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
        assert!(ranges.iter().zip(&right).all(near), "{ranges:?}");
        // A batch norm after the limit changes its units.
        let mut graph = Graph::new();
        let x = graph.input("x", &[2]).expect("valid");
        let y = graph.linear("first", x, &[1.0, 50.0, 0.5, 1.0], &[0.0; 2]).expect("valid");
        let y = graph.clip("relu6", y, Clip::RELU6);
        let y = graph.affine("norm", y, &[1.0, 2.0], &[0.0; 2]).expect("valid");
        graph.linear("last", y, &[1.0, 1.0], &[0.0]).expect("valid");
        assert_eq!(graph.pairs(), []);
    }

    #[test]
    fn a_result_that_two_layers_read_is_not_changed() {
        let mut graph = Graph::new();
        let x = graph.input("x", &[2]).expect("valid");
        let y = graph.linear("first", x, &[1.0, 50.0, 0.5, 1.0], &[0.0; 2]).expect("valid");
        let a = graph.linear("a", y, &[1.0, 1.0], &[0.0]).expect("valid");
        let b = graph.linear("b", y, &[1.0, -1.0], &[0.0]).expect("valid");
        graph.output("a", a);
        graph.output("b", b);
        assert_eq!(graph.pairs(), []);
    }
}
