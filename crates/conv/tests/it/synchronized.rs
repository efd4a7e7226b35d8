//! Batch norms over the batches of several ranks, which are threads here.

use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use burn::module::Module;
use burn::nn::BatchNormConfig;
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, BatchNorm, Gather, LayerPath, synchronize_batch_norms};
use updraft_testing::{Numbers, parameter_gradients, scattered};

/// What each of several threads sends to all.
struct Meeting {
    barrier: Barrier,
    sent: Mutex<Vec<Vec<f64>>>,
}

impl Meeting {
    fn new(ranks: usize) -> Arc<Self> {
        Arc::new(Self { barrier: Barrier::new(ranks), sent: Mutex::new(vec![Vec::new(); ranks]) })
    }

    fn gather(self: &Arc<Self>, rank: usize) -> Gather {
        let meeting = Arc::clone(self);
        Rc::new(move |numbers| {
            meeting.sent.lock().expect("no rank panicked")[rank] = numbers.to_vec();
            meeting.barrier.wait();
            let all = meeting.sent.lock().expect("no rank panicked").clone();
            meeting.barrier.wait();
            all
        })
    }
}

const CHANNELS: usize = 3;
const PIXELS: usize = 10;

/// Samples from `from`, whose means differ.
fn samples(from: usize, count: usize, seed: u32) -> Tensor<3> {
    let all: Vec<f32> = scattered(seed, 64 * CHANNELS * PIXELS)
        .into_iter()
        .enumerate()
        .map(|(at, number)| number + (at / (CHANNELS * PIXELS)) as f32 / 4.0)
        .collect();
    let sample = CHANNELS * PIXELS;
    let own = all[from * sample..(from + count) * sample].to_vec();
    let data = burn::tensor::TensorData::new(own, [count, CHANNELS, PIXELS]);
    Tensor::from_data(data, &Device::flex().autodiff())
}

/// The result, the gradient of the input, those of the parameters and the running statistics, for
/// the mean over samples of `Σ y·g`.
fn passes(norm: &BatchNorm, from: usize, count: usize, with_residual: bool) -> Vec<Vec<f64>> {
    let x = samples(from, count, 1).require_grad();
    let weights = samples(from, count, 2);
    let y = match with_residual {
        true => norm.forward_residual(x.clone(), samples(from, count, 3), Activation::Silu),
        false => norm.forward_activated(x.clone(), Activation::Silu),
    };
    let loss = (y.clone() * weights).sum() / count as f64;
    let gradients = loss.backward();
    let dx = x.grad(&gradients).expect("on the graph").numbers();
    let own = parameter_gradients(norm, &gradients);
    let mut all = vec![y.numbers(), dx];
    all.extend(own.into_iter().filter_map(|gradient| gradient.values));
    let norm = norm.valid();
    all.extend([norm.running_mean.value().numbers(), norm.running_var.value().numbers()]);
    all
}

fn norm(path: Option<LayerPath>) -> BatchNorm {
    let device = Device::flex().autodiff();
    let norm = BatchNorm::new(&BatchNormConfig::new(CHANNELS), &device);
    match path {
        Some(path) => norm.with_path(path),
        None => norm,
    }
}

/// The parts of a batch of 8 on each rank, in their order.
fn of_ranks(parts: &[usize], with_residual: bool, path: Option<LayerPath>) -> Vec<Vec<Vec<f64>>> {
    let meeting = Meeting::new(parts.len());
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..parts.len())
            .map(|rank| {
                let meeting = &meeting;
                scope.spawn(move || {
                    let (from, count) = (parts[..rank].iter().sum(), parts[rank]);
                    let mut result = Vec::new();
                    synchronize_batch_norms(count as f64, meeting.gather(rank), &mut || {
                        result = passes(&norm(path), from, count, with_residual);
                    });
                    result
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("no rank panicked")).collect()
    })
}

#[test]
fn parts_of_a_batch_have_the_results_and_gradients_of_the_whole() {
    for with_residual in [false, true] {
        let whole = passes(&norm(None), 0, 8, with_residual);
        for parts in [&[5, 3][..], &[2, 1, 5], &[8]] {
            let ranks = of_ranks(parts, with_residual, None);
            let of_rank = |rank: usize, of: usize| {
                let share = parts[rank] as f64 / 8.0;
                ranks[rank][of].iter().map(move |number| number * share).collect::<Vec<_>>()
            };
            let all = 0..parts.len();
            let y: Vec<f64> = ranks.iter().flat_map(|rank| rank[0].clone()).collect();
            let dx: Vec<f64> = all.clone().flat_map(|rank| of_rank(rank, 1)).collect();
            let mean = |of: usize| {
                all.clone().map(|rank| of_rank(rank, of)).reduce(|sum, more| {
                    sum.iter().zip(more).map(|(sum, more)| sum + more).collect()
                })
            };
            let found = [y, dx, mean(2).unwrap(), mean(3).unwrap()];
            assert_eq!(whole.len(), 6);
            for (found, expected) in found.iter().zip(&whole) {
                let largest = expected.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    let far = (found - expected).abs();
                    assert!(far <= 1e-5 * largest, "{parts:?}: {found}, {expected}");
                }
            }
            for rank in &ranks {
                for of in [4, 5] {
                    assert_eq!(rank[of], ranks[0][of], "the same bits on all ranks");
                    for (found, expected) in rank[of].iter().zip(&whole[of]) {
                        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0));
                    }
                }
            }
        }
    }
}

#[test]
fn layers_without_kernels_and_passes_outside_keep_their_own_statistics() {
    let own = passes(&norm(Some(LayerPath::Plain)), 5, 3, false);
    assert_eq!(of_ranks(&[5, 3], false, Some(LayerPath::Plain))[1], own);
    let before = passes(&norm(None), 5, 3, false);
    assert!(of_ranks(&[5, 3], false, None)[1][5] != before[5]);
    let gather: Gather = Rc::new(|_| panic!("a rank is lost"));
    let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        synchronize_batch_norms(1.0, gather, &mut || drop(passes(&norm(None), 5, 3, false)));
    }));
    assert!(lost.is_err());
    assert_eq!(passes(&norm(None), 5, 3, false), before);
}
