//! Backward passes that keep only the input of each segment and recompute the rest.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Gradients, Tensor};
use updraft_precision::attempt;

use crate::given_gradient::given_gradient;

/// How a backward pass gets the activations of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// All are kept.
    Kept,
    /// The inputs of segments are kept; the others are recomputed, segment by segment.
    Recomputed,
}

/// The values passed between segments: a tensor, an optional one, a list, or a tuple of two or
/// three.
///
/// They may differ in rank and shape, and both may change from segment to segment.
pub trait SegmentValues: Clone {
    /// The same values without a graph.
    #[must_use]
    fn detached(self) -> Self;

    /// The same values on the autodiff device, as the start of a new graph.
    #[must_use]
    fn attached(self, gradients: InputGradients) -> Self;

    /// The gradients of values that were attached with [`InputGradients::Wanted`]; zero for unused
    /// values.
    #[must_use]
    fn gradients(&self, gradients: &Gradients) -> Self;

    /// Adds one scalar for each tensor, whose gradient with respect to the tensor is the corresponding
    /// tensor of `gradients`. Their sum starts the backward pass of a segment.
    fn terms(self, gradients: Self, terms: &mut Vec<Tensor<1>>);

    /// The device of the first tensor; `None` without one.
    fn device(&self) -> Option<Device>;
}

/// Whether the gradient of a segment's input is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputGradients {
    /// Needed, for the previous segment.
    Wanted,
    /// Not needed: the input is data.
    Unused,
}

impl<const D: usize> SegmentValues for Tensor<D> {
    fn detached(self) -> Self {
        self.without_autodiff()
    }

    fn attached(self, gradients: InputGradients) -> Self {
        let tensor = Self::from_inner(self.without_autodiff());
        match gradients {
            InputGradients::Wanted => tensor.require_grad(),
            InputGradients::Unused => tensor,
        }
    }

    fn gradients(&self, gradients: &Gradients) -> Self {
        self.grad(gradients).unwrap_or_else(|| self.clone().without_autodiff().zeros_like())
    }

    fn terms(self, gradients: Self, terms: &mut Vec<Tensor<1>>) {
        terms.push(given_gradient(self, gradients));
    }

    fn device(&self) -> Option<Device> {
        Some(Tensor::device(self))
    }
}

impl<S: SegmentValues> SegmentValues for Option<S> {
    fn detached(self) -> Self {
        self.map(S::detached)
    }

    fn attached(self, gradients: InputGradients) -> Self {
        self.map(|stream| stream.attached(gradients))
    }

    fn gradients(&self, gradients: &Gradients) -> Self {
        self.as_ref().map(|stream| stream.gradients(gradients))
    }

    fn terms(self, gradients: Self, terms: &mut Vec<Tensor<1>>) {
        if let (Some(stream), Some(gradients)) = (self, gradients) {
            stream.terms(gradients, terms);
        }
    }

    fn device(&self) -> Option<Device> {
        self.as_ref().and_then(S::device)
    }
}

impl<S: SegmentValues> SegmentValues for Vec<S> {
    fn detached(self) -> Self {
        self.into_iter().map(S::detached).collect()
    }

    fn attached(self, gradients: InputGradients) -> Self {
        self.into_iter().map(|stream| stream.attached(gradients)).collect()
    }

    fn gradients(&self, gradients: &Gradients) -> Self {
        self.iter().map(|stream| stream.gradients(gradients)).collect()
    }

    fn terms(self, gradients: Self, terms: &mut Vec<Tensor<1>>) {
        for (stream, gradients) in self.into_iter().zip(gradients) {
            stream.terms(gradients, terms);
        }
    }

    fn device(&self) -> Option<Device> {
        self.iter().find_map(S::device)
    }
}

macro_rules! streams_of_tuple {
    ($($name:ident $at:tt),+) => {
        impl<$($name: SegmentValues),+> SegmentValues for ($($name,)+) {
            fn detached(self) -> Self {
                ($(self.$at.detached(),)+)
            }

            fn attached(self, gradients: InputGradients) -> Self {
                ($(self.$at.attached(gradients),)+)
            }

            fn gradients(&self, gradients: &Gradients) -> Self {
                ($(self.$at.gradients(gradients),)+)
            }

            fn terms(self, gradients: Self, terms: &mut Vec<Tensor<1>>) {
                $(self.$at.terms(gradients.$at, terms);)+
            }

            fn device(&self) -> Option<Device> {
                None$(.or_else(|| self.$at.device()))+
            }
        }
    };
}

streams_of_tuple!(A 0, B 1);
streams_of_tuple!(A 0, B 1, C 2);

/// A model cut into segments, and the head that computes the loss from their result.
pub struct Segmented<'a, M, S, T> {
    /// The number of segments.
    pub count: usize,
    /// Runs the segment of this index, from 0.
    pub segment: &'a dyn Fn(&M, usize, S) -> S,
    /// Computes the loss, and other results of the outputs.
    pub head: &'a dyn Fn(&M, S) -> (Tensor<1>, T),
}

/// The result of a backward pass.
pub struct Backward<T> {
    /// The loss, without a graph.
    pub loss: Tensor<1>,
    /// The head's other results.
    pub output: T,
    /// The gradients of the model's parameters.
    pub gradients: GradientsParams,
}

impl<M: Module, S: SegmentValues, T> Segmented<'_, M, S, T> {
    /// Runs the model forward and backward.
    ///
    /// Both modes give the same gradients: the device's random state is set from `seed` before each
    /// segment and before the head, each time it runs, so that dropout repeats its masks; and the
    /// second run of a segment uses a copy of the model with its own running statistics, so that
    /// those of batch norms are updated once.
    ///
    /// Recomputation keeps the inputs of the segments and the activations of one segment; the first
    /// run records no graph, so a segment must not turn on gradient tracking by itself. With `n`
    /// layers, about `√n` segments need the least memory, for one more forward pass of all but the
    /// last.
    ///
    /// Not to be combined with burn's own strategy (`Device::gradient_checkpointing`), whose
    /// tensors do not mix with others.
    ///
    /// # Panics
    /// If `input` holds no tensor.
    ///
    /// # Source
    /// Chen, Xu, Zhang and Guestrin 2016, arXiv:1604.06174, section 4.
    pub fn backward(
        &self,
        model: &M,
        input: S,
        activations: Activations,
        seed: u64,
    ) -> Backward<T> {
        let device = input.device().expect("the streams hold at least one tensor");
        let reseed = |index: usize| device.seed(segment_seed(seed, index));
        match activations {
            Activations::Kept => {
                let mut streams = input.attached(InputGradients::Unused);
                for index in 0..self.count {
                    reseed(index);
                    streams = (self.segment)(model, index, streams);
                }
                reseed(self.count);
                let (loss, output) = (self.head)(model, streams);
                let gradients = GradientsParams::from_grads(loss.backward(), model);
                Backward { loss: loss.without_autodiff(), output, gradients }
            }
            Activations::Recomputed => self.recomputed(model, input, &reseed),
        }
    }

    fn recomputed(&self, model: &M, input: S, reseed: &dyn Fn(usize)) -> Backward<T> {
        // The last segment's activations are needed first, so it runs once, in one graph with the
        // head.
        let twice = self.count.saturating_sub(1);
        // Its statistics are those before the first run, which updates the model's.
        let replay = attempt(model);
        let mut entered = vec![input.detached()];
        {
            // A clone shares the running statistics of its model: they are updated once, in this
            // run.
            let untracked = model.clone().map(&mut Untrack);
            for index in 0..twice {
                reseed(index);
                let streams = entered[index].clone().attached(InputGradients::Unused);
                entered.push((self.segment)(&untracked, index, streams).detached());
            }
        }
        let left = entered.pop().expect("the input was put in");
        let wanted =
            |index| if index == 0 { InputGradients::Unused } else { InputGradients::Wanted };
        let left = left.attached(wanted(twice));
        let mut streams = left.clone();
        for index in twice..self.count {
            reseed(index);
            streams = (self.segment)(model, index, streams);
        }
        reseed(self.count);
        let (loss, output) = (self.head)(model, streams);
        let found = loss.backward();
        let mut upstream = (twice > 0).then(|| left.gradients(&found));
        drop(left);
        let mut gradients = GradientsParams::from_grads(found, model);
        for index in (0..twice).rev() {
            let (Some(streams), Some(arriving)) = (entered.pop(), upstream.take()) else { break };
            reseed(index);
            let streams = streams.attached(wanted(index));
            let mut terms = Vec::new();
            (self.segment)(&replay, index, streams.clone()).terms(arriving, &mut terms);
            let Some(objective) = terms.into_iter().reduce(|sum, term| sum + term) else { break };
            // Nothing in this segment or before it has learned parameters.
            if !objective.is_tracked() {
                break;
            }
            let found = objective.backward();
            upstream = (index > 0).then(|| streams.gradients(&found));
            let mut part = GradientsParams::from_grads(found, &replay);
            replay.visit(&mut Merge { into: &mut gradients, from: &mut part });
        }
        Backward { loss: loss.without_autodiff(), output, gradients }
    }
}

/// A seed for each segment: steps of the golden ratio separate neighboring seeds.
fn segment_seed(seed: u64, index: usize) -> u64 {
    seed.wrapping_add((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Stops parameters from starting a graph.
///
/// burn keeps a graph that was dropped, with every activation in it, until the next backward pass:
/// the first run must not record one. Training flags stay, so that batch norms train.
pub(crate) struct Untrack;

impl ModuleMapper for Untrack {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.set_require_grad(false)
    }
}

/// Adds gradients to those of the same parameters: segments may share some.
struct Merge<'a> {
    into: &'a mut GradientsParams,
    from: &'a mut GradientsParams,
}

impl ModuleVisitor for Merge<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.from.remove::<D>(param.id) else { return };
        let sum = match self.into.remove::<D>(param.id) {
            Some(other) => other + gradient,
            None => gradient,
        };
        self.into.register(param.id, sum);
    }
}

#[cfg(test)]
mod tests {

    use burn::nn::{
        BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    };
    use burn::tensor::{Distribution, activation::relu};
    use updraft_precision::Policy;

    use updraft_testing::alone;

    use super::*;

    /// Two streams of different rank, one of them optional, and a layer that all stages share.
    #[derive(Module, Debug)]
    struct Net {
        stages: Vec<Stage>,
        shared: Linear,
        dropout: Dropout,
    }

    #[derive(Module, Debug)]
    struct Stage {
        conv: Conv2d,
        norm: BatchNorm,
        pooled: Linear,
    }

    const CHANNELS: usize = 4;

    impl Net {
        fn new(stages: usize, device: &Device) -> Self {
            let stage = |_| Stage {
                conv: Conv2dConfig::new([CHANNELS, CHANNELS], [3, 3])
                    .with_padding(PaddingConfig2d::Same)
                    .init(device),
                norm: BatchNormConfig::new(CHANNELS).init(device),
                pooled: LinearConfig::new(CHANNELS, CHANNELS).init(device),
            };
            Self {
                stages: (0..stages).map(stage).collect(),
                shared: LinearConfig::new(CHANNELS, CHANNELS).init(device),
                dropout: DropoutConfig::new(0.3).init(),
            }
        }

        fn segment(&self, index: usize, (maps, stream): Flow) -> Flow {
            let stage = &self.stages[index];
            let maps = maps.clone() + relu(stage.norm.forward(stage.conv.forward(maps)));
            let maps = self.dropout.forward(maps);
            let [batch, channels, height, width] = maps.dims();
            let pooled = maps.clone().reshape([batch, channels, height * width]).mean_dim(2);
            let pooled = stage.pooled.forward(pooled.reshape([batch, channels]));
            let stream = stream.map_or(pooled.clone(), |stream| stream + pooled);
            (maps, Some(self.shared.forward(stream)))
        }

        fn statistics(&self) -> Vec<f32> {
            let of = |stage: &Stage| {
                let (mean, var) = (&stage.norm.running_mean, &stage.norm.running_var);
                [mean, var].map(|state| state.value_sync().into_data().iter::<f32>().collect())
            };
            self.stages.iter().flat_map(of).flat_map(|values: Vec<f32>| values).collect()
        }
    }

    type Flow = (Tensor<4>, Option<Tensor<2>>);

    /// Pairs up what two backward passes found, in module order.
    struct Collect<'a>(&'a GradientsParams, Vec<(f64, f64)>, &'a GradientsParams);

    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let (left, right) = (self.0.get::<D>(param.id), self.2.get::<D>(param.id));
            assert_eq!(left.is_some(), right.is_some());
            let (Some(left), Some(right)) = (left, right) else { return };
            let (left, right) = (left.into_data(), right.into_data());
            self.1.extend(left.iter::<f64>().zip(right.iter::<f64>()));
        }
    }

    fn run(net: &Net, x: &Tensor<4>, activations: Activations, seed: u64) -> Backward<Vec<f32>> {
        let segmented = Segmented {
            count: net.stages.len(),
            segment: &|net: &Net, index, flow| net.segment(index, flow),
            head: &|_, (maps, stream): Flow| {
                let stream = stream.expect("at least one stage");
                let output = stream.clone().into_data().iter::<f32>().collect();
                (maps.powf_scalar(2.0).mean() + stream.sin().mean(), output)
            },
        };
        segmented.backward(net, (x.clone(), None), activations, seed)
    }

    #[test]
    fn recomputed_gradients_are_those_of_kept_activations() {
        let _alone = alone();
        for device in updraft_testing::autodiff_devices() {
            for stages in [1, 2, 5] {
                device.seed(7);
                let net = Net::new(stages, &device);
                let x = Tensor::random([3, CHANNELS, 6, 6], Distribution::Default, &device);
                let (kept_net, recomputed_net) = (attempt(&net), attempt(&net));
                let kept = run(&kept_net, &x, Activations::Kept, 11);
                let recomputed = run(&recomputed_net, &x, Activations::Recomputed, 11);
                assert_eq!(kept.output, recomputed.output);
                let mut pairs = Collect(&kept.gradients, Vec::new(), &recomputed.gradients);
                net.visit(&mut pairs);
                let largest = pairs.1.iter().map(|(kept, _)| kept.abs()).fold(0.0, f64::max);
                assert!(largest > 1e-4 && pairs.1.len() > 100 * stages);
                for (kept, recomputed) in pairs.1 {
                    assert!((kept - recomputed).abs() <= 1e-6 * largest, "{kept} {recomputed}");
                }
                // Statistics moved, once.
                assert_eq!(kept_net.statistics(), recomputed_net.statistics());
                assert_ne!(net.statistics(), recomputed_net.statistics());
            }
        }
    }

    #[test]
    fn dropout_repeats_its_masks_and_another_seed_has_others() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        device.seed(3);
        let net = Net::new(2, &device);
        let x = Tensor::random([3, CHANNELS, 6, 6], Distribution::Default, &device);
        let first = run(&attempt(&net), &x, Activations::Recomputed, 11);
        // Other draws from the device in between change nothing.
        let _ = Tensor::<1>::random([17], Distribution::Default, &device).into_data();
        let second = run(&attempt(&net), &x, Activations::Recomputed, 11);
        assert_eq!(first.output, second.output);
        let other = run(&attempt(&net), &x, Activations::Recomputed, 12);
        assert_ne!(first.output, other.output);
    }

    #[test]
    fn an_autocast_model_recomputes_too() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        device.seed(5);
        let model = Policy::BF16_MIXED.autocast(Layers::new(4, &device));
        let x = Tensor::<2>::random([4, 5], Distribution::Default, &device);
        let x = x.cast(Policy::BF16_MIXED.compute);
        let segmented = Segmented {
            count: 2,
            segment: &|model: &Layers, index, x: Tensor<2>| {
                model.layers[2 * index..2 * index + 2]
                    .iter()
                    .fold(x, |x, layer| layer.forward(x).tanh())
            },
            head: &|_, x: Tensor<2>| (x.cast(Policy::BF16_MIXED.output).mean(), ()),
        };
        let kept = segmented.backward(&model, x.clone(), Activations::Kept, 1);
        let recomputed = segmented.backward(&model, x, Activations::Recomputed, 1);
        let mut pairs = Collect(&kept.gradients, Vec::new(), &recomputed.gradients);
        model.visit(&mut pairs);
        assert_eq!(pairs.1.len(), 4 * 30);
        assert!(pairs.1.iter().all(|(kept, recomputed)| kept == recomputed));
    }

    #[derive(Module, Debug)]
    struct Layers {
        layers: Vec<Linear>,
    }

    impl Layers {
        fn new(count: usize, device: &Device) -> Self {
            Self { layers: (0..count).map(|_| LinearConfig::new(5, 5).init(device)).collect() }
        }
    }

    #[test]
    fn the_first_run_records_no_graph_and_the_last_segment_runs_once() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let model = Layers::new(3, &device);
        let tracked = std::cell::RefCell::new(Vec::new());
        let segmented = Segmented {
            count: 3,
            segment: &|model: &Layers, index, x: Tensor<2>| {
                let y = model.layers[index].forward(x);
                tracked.borrow_mut().push((index, y.is_tracked()));
                y
            },
            head: &|_, x: Tensor<2>| (x.mean(), ()),
        };
        let x = Tensor::<2>::ones([4, 5], &device);
        let _ = segmented.backward(&model, x, Activations::Recomputed, 1);
        let runs = [(0, false), (1, false), (2, true), (1, true), (0, true)];
        assert_eq!(*tracked.borrow(), runs);
    }

    #[test]
    fn frozen_segments_have_no_gradients_and_do_not_hinder_the_others() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let mut model = Layers::new(3, &device);
        let first = model.layers.remove(0).freeze();
        model.layers.insert(0, first);
        let segmented = Segmented {
            count: 3,
            segment: &|model: &Layers, index, x: Tensor<2>| model.layers[index].forward(x),
            head: &|_, x: Tensor<2>| (x.powf_scalar(2.0).mean(), ()),
        };
        let x = Tensor::<2>::ones([4, 5], &device);
        let kept = segmented.backward(&model, x.clone(), Activations::Kept, 1);
        let recomputed = segmented.backward(&model, x, Activations::Recomputed, 1);
        let mut pairs = Collect(&kept.gradients, Vec::new(), &recomputed.gradients);
        model.visit(&mut pairs);
        assert_eq!(pairs.1.len(), 2 * 30);
        assert!(pairs.1.iter().all(|(kept, recomputed)| kept == recomputed));
    }
}
