//! Statistics of batch norms over a whole data set, instead of running averages.

use std::collections::{BTreeMap, HashMap, HashSet};

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Tensor, TensorData};

use crate::buffers::learned;
use crate::events::Control;
use crate::paths::{PathVisitor, visit_paths};
use crate::recompute::Untrack;

/// A copy of a model whose running statistics are those of the given batches.
///
/// For each running mean and variance the result is the mean and the variance over all samples of
/// all batches: `μ = Σ wᵢμᵢ` and `σ² = Σ wᵢ(σᵢ² + μᵢ²) − μ²`, with `wᵢ` a batch's share of the
/// samples; any other statistic becomes its mean over batches. As in training, each layer's inputs
/// were normalized with the statistics of their own batch. Layers with a training switch that keep
/// no statistics, such as dropout, are off: they are off when the statistics are used, and noise
/// would inflate the variances. Learned parameters are not changed.
///
/// The given model is not changed, even after an error: the computation uses a copy with its own
/// statistics. The returned copy is on the device without autodiff. `poll` is called after each
/// batch with their number; `None` if it returns [`Control::Stop`].
///
/// Each batch is an input of `forward`, on the autodiff device, with its number of samples.
///
/// # Errors
/// The first error among the batches.
///
/// # Source
/// Wu and Johnson 2021, arXiv:2105.07576, section 3.1 (precise batch norm), with the exact
/// variance of pooled samples.
pub fn recompute_batch_norms<M: Module, I: Clone, E>(
    model: &M,
    forward: &dyn Fn(&M, I),
    batches: &mut dyn Iterator<Item = Result<(I, usize), E>>,
    poll: &mut dyn FnMut(u64) -> Control,
) -> Result<Option<M>, E> {
    recompute(model, Noise::Off, forward, batches, poll)
}

/// Whether a model has layers whose statistics [`recompute_batch_norms`] computes.
#[must_use]
pub fn keeps_statistics<M: Module>(model: &M) -> bool {
    let learned = learned(model);
    let mut find = FindStatistics { learned: &learned, found: Found::default() };
    visit_paths(model, &mut find);
    !find.found.ids.is_empty()
}

/// The number of layers that [`recompute_batch_norms`] switches off: those with a training switch
/// that is on and without statistics, such as dropout.
#[must_use]
pub fn switched_off_layers<M: Module>(model: &M) -> usize {
    let copy = model.valid().train();
    let learned = learned(&copy);
    let mut find = FindStatistics { learned: &learned, found: Found::default() };
    visit_paths(&copy, &mut find);
    let mut silence = Silence { path: Vec::new(), keepers: &find.found.keepers, count: 0 };
    drop(copy.map(&mut silence));
    silence.count
}

/// Whether layers without statistics behave as in training.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Noise {
    Off,
    /// What `torch.optim.swa_utils.update_bn` does; for the test that shows why not.
    #[cfg(test)]
    On,
}

fn recompute<M: Module, I: Clone, E>(
    model: &M,
    noise: Noise,
    forward: &dyn Fn(&M, I),
    batches: &mut dyn Iterator<Item = Result<(I, usize), E>>,
    poll: &mut dyn FnMut(u64) -> Control,
) -> Result<Option<M>, E> {
    let (mut copy, found) = observable(model, noise);
    let mut sums: BTreeMap<ParamId, Moments> = BTreeMap::new();
    let mut shares: BTreeMap<ParamId, f64> = BTreeMap::new();
    let mut samples = 0.0;
    let mut count = 0;
    for batch in batches {
        let (input, in_batch) = batch?;
        let weight = in_batch as f64;
        if shares.is_empty() {
            shares = momenta(&mut copy, &found, forward, &input);
        }
        // From zero, one pass leaves `momentum · statistic`.
        let seen = pass(&mut copy, &found, forward, input, &|_| 0.0);
        for (id, values) in &seen {
            let Some(share) = shares.get(id) else { continue };
            sums.entry(*id).or_default().add(values, weight, *share);
        }
        // The means of the same batch belong to its variances.
        for (variance, mean) in &found.pairs {
            let (Some(share), Some(means)) = (shares.get(mean), seen.get(mean)) else { continue };
            sums.entry(*variance).or_default().add_squares(means, weight, *share);
        }
        samples += weight;
        count += 1;
        if poll(count) != Control::Continue {
            return Ok(None);
        }
    }
    let kept = read(&model.valid(), &found);
    let mut results = kept;
    for (id, moments) in &sums {
        let mean = found.pairs.get(id).and_then(|mean| sums.get(mean));
        results.insert(*id, moments.over(samples, mean));
    }
    Ok(Some(copy.valid().map(&mut Write { values: &results })))
}

/// A copy of a model whose forward passes change statistics of its own, and these statistics.
fn observable<M: Module>(model: &M, noise: Noise) -> (M, Found) {
    // `valid` gives the copy its own statistics; a clone would share them.
    let copy = model.valid().train();
    let learned = learned(&copy);
    let mut find = FindStatistics { learned: &learned, found: Found::default() };
    visit_paths(&copy, &mut find);
    let found = find.found;
    let copy = match noise {
        Noise::Off => {
            copy.map(&mut Silence { path: Vec::new(), keepers: &found.keepers, count: 0 })
        }
        #[cfg(test)]
        Noise::On => copy,
    };
    // No batch has a backward pass that would release its graph.
    (copy.map(&mut Untrack), found)
}

/// The batch norms of a model that follow their batches, by the parameter of their running
/// variance: that of their running mean, and the share of a batch in both.
pub(crate) fn followers<M: Module, I: Clone>(
    model: &M,
    forward: &dyn Fn(&M, I),
    input: &I,
) -> HashMap<ParamId, (ParamId, f64)> {
    let (mut copy, found) = observable(model, Noise::Off);
    let shares = momenta(&mut copy, &found, forward, input);
    let of_pair = |(variance, mean): (&ParamId, &ParamId)| {
        let share = *shares.get(mean)?;
        Some((*variance, (*mean, share)))
    };
    found.pairs.iter().filter_map(of_pair).collect()
}

/// The statistics of a model: which there are, and which belong together.
#[derive(Default)]
struct Found {
    ids: HashSet<ParamId>,
    /// The running mean of each running variance.
    pairs: BTreeMap<ParamId, ParamId>,
    /// Paths of the layers that keep statistics.
    keepers: HashSet<String>,
    /// The running means and variances seen so far, by their layer.
    means: BTreeMap<String, ParamId>,
    variances: BTreeMap<String, ParamId>,
}

struct FindStatistics<'a> {
    learned: &'a HashSet<ParamId>,
    found: Found,
}

impl PathVisitor for FindStatistics<'_> {
    fn visit<const D: usize>(&mut self, path: &[String], param: &Param<Tensor<D>>) {
        let Some((name, layer)) = path.split_last() else { return };
        if self.learned.contains(&param.id) || !name.starts_with("running_") {
            return;
        }
        let layer = layer.join(".");
        let found = &mut self.found;
        found.ids.insert(param.id);
        found.keepers.insert(layer.clone());
        match name.as_str() {
            "running_mean" => drop(found.means.insert(layer.clone(), param.id)),
            "running_var" => drop(found.variances.insert(layer.clone(), param.id)),
            _ => {}
        }
        if let (Some(mean), Some(variance)) = (found.means.get(&layer), found.variances.get(&layer))
        {
            found.pairs.insert(*variance, *mean);
        }
    }
}

/// Switches off every layer that keeps no statistics.
struct Silence<'a> {
    path: Vec<String>,
    keepers: &'a HashSet<String>,
    /// Layers that were on.
    count: usize,
}

impl ModuleMapper for Silence<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        let layer = self.path.split_last().map_or(String::new(), |(_, layer)| layer.join("."));
        if self.keepers.contains(&layer) {
            return flag;
        }
        self.count += usize::from(flag.is_enabled());
        flag.with_value(false)
    }
}

/// The share of a batch's statistic that enters each running statistic.
///
/// It is a field of the layer that no traversal shows, so it is measured: a running statistic at
/// zero becomes `m·s`, one at a large `v` becomes `(1 − m)·v + m·s`. A layer that is frozen
/// does not change its statistics and is left out.
fn momenta<M: Module, I: Clone>(
    copy: &mut M,
    found: &Found,
    forward: &dyn Fn(&M, I),
    input: &I,
) -> BTreeMap<ParamId, f64> {
    let low = pass(copy, found, forward, input.clone(), &|_| 0.0);
    let large = |id: ParamId| {
        let most = low.get(&id).into_iter().flatten().fold(1.0_f64, |most, x| most.max(x.abs()));
        // A power of two far above the statistic, so that `m·s` costs the difference no digits.
        2.0_f64.powi(most.log2().ceil() as i32 + 10)
    };
    let high = pass(copy, found, forward, input.clone(), &large);
    let mut shares = BTreeMap::new();
    for (id, low) in &low {
        let differences = high[id].iter().zip(low).map(|(high, low)| high - low);
        let kept = differences.sum::<f64>() / (low.len().max(1) as f64 * large(*id));
        if 1.0 - kept > 1e-9 {
            shares.insert(*id, 1.0 - kept);
        }
    }
    shares
}

/// One forward pass from the given values; returns the statistics after it.
fn pass<M: Module, I: Clone>(
    copy: &mut M,
    found: &Found,
    forward: &dyn Fn(&M, I),
    input: I,
    from: &dyn Fn(ParamId) -> f64,
) -> BTreeMap<ParamId, Vec<f64>> {
    // In place, as burn maps running statistics: the clone is the same model.
    *copy = copy.clone().map(&mut Fill { ids: &found.ids, from });
    forward(copy, input);
    read(&copy.valid(), found)
}

fn read<M: Module>(model: &M, found: &Found) -> BTreeMap<ParamId, Vec<f64>> {
    let mut read = Read { ids: &found.ids, values: BTreeMap::new() };
    model.visit(&mut read);
    read.values
}

struct Fill<'a> {
    ids: &'a HashSet<ParamId>,
    from: &'a dyn Fn(ParamId) -> f64,
}

impl ModuleMapper for Fill<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !self.ids.contains(&param.id) {
            return param;
        }
        let value = (self.from)(param.id);
        param.map(|tensor| tensor.zeros_like().add_scalar(value))
    }
}

struct Read<'a> {
    ids: &'a HashSet<ParamId>,
    values: BTreeMap<ParamId, Vec<f64>>,
}

impl ModuleVisitor for Read<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.ids.contains(&param.id) {
            self.values.insert(param.id, param.base().into_data().iter::<f64>().collect());
        }
    }
}

struct Write<'a> {
    values: &'a BTreeMap<ParamId, Vec<f64>>,
}

impl ModuleMapper for Write<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(values) = self.values.get(&param.id) else { return param };
        param.map(|tensor| {
            let data = TensorData::new(values.clone(), tensor.dims());
            Tensor::from_data(data, (&tensor.device(), tensor.dtype()))
        })
    }
}

/// Weighed sums of a statistic over batches.
#[derive(Default)]
struct Moments {
    sum: Vec<f64>,
    /// For a variance: the weighed squares of its means.
    squares: Vec<f64>,
}

impl Moments {
    fn add(&mut self, values: &[f64], weight: f64, share: f64) {
        self.sum.resize(values.len(), 0.0);
        for (sum, value) in self.sum.iter_mut().zip(values) {
            *sum += weight * value / share;
        }
    }

    fn add_squares(&mut self, means: &[f64], weight: f64, share: f64) {
        self.squares.resize(means.len(), 0.0);
        for (sum, mean) in self.squares.iter_mut().zip(means) {
            *sum += weight * (mean / share).powi(2);
        }
    }

    /// The statistic over all samples; `mean` where this is the variance that belongs to it.
    fn over(&self, samples: f64, mean: Option<&Self>) -> Vec<f64> {
        let Some(mean) = mean else {
            return self.sum.iter().map(|sum| sum / samples).collect();
        };
        let within_and_between = self.sum.iter().zip(&self.squares);
        within_and_between
            .zip(&mean.sum)
            .map(|((within, squares), mean)| {
                (within + squares) / samples - (mean / samples).powi(2)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig};
    use burn::tensor::Device;
    use updraft_testing::{Tolerance, assert_close, autodiff_devices};

    use super::*;

    /// The momentum is recovered from f32 sums to about 10⁻⁶, which a statistic inherits.
    const MEASURED: Tolerance = Tolerance::new(1e-5, 1e-5);

    /// Dropout straight before a batch norm: where noise in the statistics hurts most.
    #[derive(Module, Debug)]
    struct Noisy {
        dropout: Dropout,
        norm: BatchNorm,
    }

    impl Noisy {
        fn new(momentum: f64, device: &Device) -> Self {
            Self {
                dropout: DropoutConfig::new(0.5).init(),
                norm: BatchNormConfig::new(1).with_momentum(momentum).init(device),
            }
        }

        fn forward(&self, images: Tensor<4>) -> Tensor<2> {
            let [batch, ..] = images.dims();
            self.norm.forward(self.dropout.forward(images)).reshape([batch as i32, -1])
        }

        fn statistics(&self) -> [f64; 2] {
            let valid = self.valid();
            [&valid.norm.running_mean, &valid.norm.running_var]
                .map(|state| state.value().into_data().iter::<f64>().next().expect("one"))
        }
    }

    fn forward(model: &Noisy, images: Tensor<4>) {
        model.forward(images);
    }

    type Batch = Result<(Tensor<4>, usize), &'static str>;

    /// Batches of 3, 3 and 2 samples around 3, of one pixel each.
    const PIXELS: [f64; 8] = [1.0, 4.5, 2.0, 7.0, 3.0, 3.5, -1.0, 4.0];

    fn batches(device: &Device) -> Vec<Batch> {
        let batch = |pixels: &[f64]| {
            let data = TensorData::new(pixels.to_vec(), [pixels.len(), 1, 1, 1]);
            Ok((Tensor::from_data(data.convert::<f32>(), device), pixels.len()))
        };
        PIXELS.chunks(3).map(batch).collect()
    }

    /// Mean and biased variance, in f64 over all samples.
    fn expected() -> [f64; 2] {
        let mean = PIXELS.iter().sum::<f64>() / 8.0;
        [mean, PIXELS.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 8.0]
    }

    #[test]
    fn statistics_are_those_of_the_whole_data_for_any_momentum() {
        for device in autodiff_devices() {
            for momentum in [0.01, 0.1, 1.0] {
                let model = Noisy::new(momentum, &device);
                // Stale statistics and a pending update must have no effect.
                model.forward(Tensor::ones([2, 1, 1, 1], &device).mul_scalar(50.0));
                let before = model.statistics();
                let exact = recompute_batch_norms(
                    &model,
                    &forward,
                    &mut batches(&device).into_iter(),
                    &mut |_| Control::Continue,
                );
                let exact = exact.expect("no error").expect("not stopped");
                assert_close(&exact.statistics(), &expected(), MEASURED);
                assert_eq!(model.statistics(), before, "the given model moved");
                assert!(exact.norm.gamma.val().into_data() == model.norm.gamma.val().into_data());
            }
        }
    }

    #[test]
    fn with_dropout_on_the_variance_is_another_and_outputs_are_not_normal() {
        for device in autodiff_devices() {
            device.seed(7);
            let model = Noisy::new(0.1, &device);
            // Enough batches to exclude chance.
            let many = || (0..64).flat_map(|_| batches(&device));
            let on =
                recompute(&model, Noise::On, &forward, &mut many(), &mut |_| Control::Continue);
            let on = on.expect("no error").expect("not stopped");
            // Kept values are doubled: the variance is 2·E[x²] − E[x]² instead of E[x²] − E[x]².
            assert_eq!(switched_off_layers(&model), 1);
            let [mean, variance] = expected();
            let inflated = 2.0 * (variance + mean * mean) - mean * mean;
            let [_, found] = on.statistics();
            assert!((found / inflated - 1.0).abs() < 0.2, "{found}, expected about {inflated}");
            // In use, dropout is off: outputs should have variance 1.
            let off =
                recompute_batch_norms(&model, &forward, &mut many(), &mut |_| Control::Continue);
            let off = off.expect("no error").expect("not stopped");
            let spread = |model: &Noisy| {
                let plain = device.clone().without_autodiff();
                let pixels = TensorData::new(PIXELS.to_vec(), [8, 1, 1, 1]).convert::<f32>();
                let output = model.forward(Tensor::from_data(pixels, &plain));
                output.clone().var_bias(0).into_data().iter::<f64>().next().expect("one")
            };
            assert!((spread(&off) - 1.0).abs() < 1e-3, "{}", spread(&off));
            assert!(spread(&on) < 0.5, "{}", spread(&on));
        }
    }

    /// Parameters that are no statistics: one without a gradient, one that is learned and has the
    /// name of a statistic.
    #[derive(Module, Debug)]
    struct WithoutStatistics {
        table: Param<Tensor<1>>,
        running_scale: Param<Tensor<1>>,
        first: Dropout,
        second: Dropout,
    }

    #[test]
    fn statistics_are_what_is_not_learned_and_has_their_name() {
        for device in autodiff_devices() {
            let dropout = || DropoutConfig::new(0.5).init();
            let table = Param::from_tensor(Tensor::ones([2], &device)).set_require_grad(false);
            let running_scale = Param::from_tensor(Tensor::ones([2], &device));
            let model =
                WithoutStatistics { table, running_scale, first: dropout(), second: dropout() };
            assert!(!keeps_statistics(&model));
            assert_eq!(switched_off_layers(&model), 2);
            assert!(keeps_statistics(&Noisy::new(0.1, &device)));
            let norm: BatchNorm = BatchNormConfig::new(1).init(&device);
            assert!(keeps_statistics(&norm));
            assert_eq!(switched_off_layers(&norm), 0);
        }
    }

    #[test]
    fn a_layer_that_does_not_follow_its_batches_keeps_its_statistics() {
        for device in autodiff_devices() {
            let model = Noisy::new(0.0, &device);
            let before = model.statistics();
            let given = &mut batches(&device).into_iter();
            let after = recompute_batch_norms(&model, &forward, given, &mut |_| Control::Continue);
            let after = after.expect("no error").expect("not stopped");
            assert_eq!(after.statistics(), before);
        }
    }

    #[test]
    fn no_batch_leaves_a_graph_behind() {
        for device in autodiff_devices() {
            let model = Noisy::new(0.1, &device);
            let tracked = std::cell::Cell::new(0);
            let watched = |model: &Noisy, x: Tensor<4>| {
                let y = model.forward(x);
                tracked.set(tracked.get() + usize::from(y.is_tracked()));
            };
            let given = &mut batches(&device).into_iter();
            let done = recompute_batch_norms(&model, &watched, given, &mut |_| Control::Continue);
            assert!(done.expect("no error").is_some());
            assert_eq!(tracked.get(), 0);
        }
    }

    #[test]
    fn an_error_or_a_stop_in_the_middle_leaves_the_model_as_it_was() {
        for device in autodiff_devices() {
            let model = Noisy::new(0.1, &device);
            model.forward(Tensor::ones([2, 1, 1, 1], &device));
            let before = model.statistics();
            let mut broken = batches(&device);
            broken[1] = Err("unreadable");
            let error =
                recompute_batch_norms(&model, &forward, &mut broken.into_iter(), &mut |_| {
                    Control::Continue
                });
            assert_eq!(error.expect_err("a broken batch"), "unreadable");
            let stopped = recompute_batch_norms(
                &model,
                &forward,
                &mut batches(&device).into_iter(),
                &mut |done| if done == 2 { Control::Stop } else { Control::Continue },
            );
            assert!(stopped.expect("no error").is_none());
            assert_eq!(model.statistics(), before);
        }
    }
}
