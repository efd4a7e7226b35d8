//! Training on several ranks, which are threads here.

use std::thread;
use std::time::Duration;

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use updraft_data::Part;
use updraft_distributed::{CollectiveError, Shared, Threads, Wire};
use updraft_testing::alone;
use updraft_trainer::{
    BatchNormStatistics, Control, Ending, Event, Finished, NonFinite, Ranks, ReadEachReason, Run,
    RunData, RunSettings, TrainError,
};

use crate::small::{Classifier, Classify, loader_of, new_run, optimizer, settings, task};

/// Runs on each of several ranks with a model, and returns what each returned.
fn on_ranks<M: Send, R: Send>(models: Vec<M>, run: impl Fn(M, &mut Ranks) -> R + Sync) -> Vec<R> {
    let engines = Threads::group(models.len(), Duration::from_secs(60));
    thread::scope(|scope| {
        let ranks = engines.into_iter().zip(models).map(|(engine, model)| {
            let run = &run;
            scope.spawn(move || run(model, &mut Ranks::new(Shared::new(engine), Wire::F32)))
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Multiplies every number that is trained.
struct Scaled(f64);

impl ModuleMapper for Scaled {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !param.base().is_require_grad() {
            return param;
        }
        param.map(|tensor| (tensor.detach() * self.0).detach().require_grad())
    }
}

/// A model for each rank; all but the first have other numbers, which training replaces.
fn models<M: Module>(size: usize, new: impl Fn(&Device) -> M) -> Vec<M> {
    let device = Device::flex().autodiff();
    (0..size).map(|rank| new(&device).map(&mut Scaled(1.0 + rank as f64))).collect()
}

/// A linear classifier, which has no batch norm and no dropout.
fn linear(device: &Device) -> Linear {
    device.seed(3);
    let linear = LinearConfig::new(3 * 16 * 16, 4).init(device);
    // burn draws a parameter when it is first used.
    let _ = (linear.weight.val(), linear.bias.as_ref().map(Param::val));
    linear
}

fn classify(linear: &Linear, images: Tensor<4>) -> Tensor<2> {
    linear.forward(images.flatten(1, 3))
}

fn numbers(linear: &Linear) -> Vec<f32> {
    let bias = linear.bias.as_ref().unwrap().val();
    let [weight, bias] = [linear.weight.val().into_data(), bias.into_data()];
    weight.iter::<f32>().chain(bias.iter()).collect()
}

/// A finished run and the losses of its steps.
type Trained<M> = Result<(Finished<M>, Vec<f64>), TrainError>;

/// Trains to the end, or stops when one rank's observer has seen a step.
fn trained<M: Module>(
    run: Run<M>,
    task: &Classify<'_, M>,
    settings: &RunSettings,
    ranks: &mut Ranks,
    stop_at: Option<(usize, u64)>,
) -> Trained<M> {
    let (rank, device) = (ranks.rank(), Device::flex().autodiff());
    let part = Part { index: rank, count: ranks.size() };
    let (train, test) = (loader_of(1, part), loader_of(2, part));
    let data = RunData { train: &train, test: Some(&test) };
    let mut losses = Vec::new();
    let finished = run.train_on_ranks(task, settings, data, &device, ranks, &mut |event, _| {
        let Event::Step(report) = event else { return Control::Continue };
        losses.push(report.loss);
        if stop_at == Some((rank, report.step)) { Control::Stop } else { Control::Continue }
    });
    finished.map(|finished| (finished, losses))
}

fn all_trained<M: Module + 'static>(
    models: Vec<M>,
    task: impl Fn() -> Classify<'static, M> + Sync,
    settings: &RunSettings,
    stop_at: Option<(usize, u64)>,
) -> Vec<Trained<M>> {
    on_ranks(models, |model, ranks| {
        trained(Run::new(model, optimizer().init()), &task(), settings, ranks, stop_at)
    })
}

/// As [`Classifier::forward`]; threads of one process share the random numbers of dropout.
fn calm(size: usize) -> Vec<Classifier> {
    models(size, Classifier::calm)
}

#[test]
fn one_rank_is_a_run_without_ranks_bit_for_bit() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let settings = folders.each_ref().map(|folder| settings(folder.path(), 2));
    let data = [1, 2].map(|seed| loader_of(seed, Part::WHOLE));
    let data = RunData { train: &data[0], test: Some(&data[1]) };
    let alone = new_run(&device)
        .train(&task(), &settings[0], data, &device, &mut |_, _| Control::Continue)
        .unwrap();
    let ranked = on_ranks(vec![new_run(&device)], |run, ranks| {
        trained(run, &task(), &settings[1], ranks, None).unwrap().0
    });
    assert!(ranked[0].model.bits() == alone.model.bits());
    assert_eq!(ranked[0].test, alone.test);
}

#[test]
fn several_ranks_read_each_update_and_say_so_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let settings = RunSettings { read_every: 4, ..settings(folder.path(), 1) };
    let reasons = on_ranks(models(2, linear), |model, ranks| {
        let device = Device::flex().autodiff();
        let part = Part { index: ranks.rank(), count: ranks.size() };
        let (train, test) = (loader_of(1, part), loader_of(2, part));
        let data = RunData { train: &train, test: Some(&test) };
        let (mut reasons, mut steps) = (Vec::new(), 0);
        let task = Classify::new(&classify);
        let run = Run::new(model, optimizer().init());
        let watch = &mut |event: &Event, _: &Linear| {
            match event {
                Event::ReadEach { reason } => reasons.push((*reason, steps)),
                Event::Step(_) => steps += 1,
                _ => {}
            }
            Control::Continue
        };
        run.train_on_ranks(&task, &settings, data, &device, ranks, watch).unwrap();
        (reasons, steps)
    });
    assert_eq!(reasons, vec![(vec![(ReadEachReason::SeveralRanks, 0)], 6); 2]);
}

#[test]
fn several_ranks_take_the_steps_of_one_and_have_the_same_bits() {
    let _alone = alone();
    let task = || Classify::new(&classify);
    let run = |size: usize, epochs: u64| {
        let folder = tempfile::tempdir().unwrap();
        let trained =
            all_trained(models(size, linear), task, &settings(folder.path(), epochs), None);
        trained.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let alone = &run(1, 9)[0];
    for size in [2, 3, 4] {
        let ranks = run(size, 9);
        let first = numbers(&ranks[0].0.model);
        for (finished, losses) in &ranks {
            assert!(numbers(&finished.model) == first, "{size} ranks have the same bits");
            assert_eq!(losses, &ranks[0].1);
            assert_eq!(finished.test, ranks[0].0.test);
        }
        assert!(numbers(&run(size, 9)[0].0.model) == first, "{size} ranks repeat their bits");
        assert_eq!(ranks[0].1.len(), 54);
        for (step, (ours, alone)) in ranks[0].1.iter().zip(&alone.1).enumerate() {
            assert!((ours - alone).abs() < 1e-3, "step {step} of {size} ranks: {ours}, {alone}");
        }
        let largest = numbers(&alone.0.model).iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for (ours, alone) in first.iter().zip(numbers(&alone.0.model)) {
            assert!((ours - alone).abs() < 1e-3 * largest, "{size} ranks: {ours}, {alone}");
        }
        let accuracy = |of: &Finished<Linear>| of.test.as_ref().unwrap().value("accuracy").unwrap();
        assert_eq!(ranks[0].0.test.as_ref().unwrap().samples, 48);
        assert!((accuracy(&ranks[0].0) - accuracy(&alone.0)).abs() < 0.05);
    }
}

#[test]
fn a_stopped_run_resumes_to_the_same_bits_and_with_another_number_of_ranks() {
    let _alone = alone();
    let whole = {
        let folder = tempfile::tempdir().unwrap();
        all_trained(calm(2), task, &settings(folder.path(), 2), None)
    };
    let whole: Vec<_> = whole.into_iter().map(|rank| rank.unwrap().0.model.bits()).collect();
    assert!(whole[0] == whole[1], "running statistics too");
    for (by, at) in [(0, 0), (1, 3), (0, 4), (1, 7)] {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), 2);
        let stopped = all_trained(calm(2), task, &settings, Some((by, at)));
        let stopped: Vec<_> = stopped.into_iter().map(|rank| rank.unwrap().0).collect();
        for finished in &stopped {
            // After the update that follows the request.
            assert_eq!((finished.steps, finished.ending), (at + 2, Ending::Stopped));
            assert_eq!(finished.checkpoint, stopped[0].checkpoint);
        }
        for size in [3, 2] {
            // Another number of ranks would write over the checkpoints.
            let epochs = tempfile::tempdir().unwrap();
            let mut settings = settings.clone();
            if size == 3 {
                settings.checkpoints.folder = epochs.path().to_path_buf();
            }
            let resumed = on_ranks(calm(size), |model, ranks| {
                let run = Run::resume(&stopped[0].checkpoint, model, optimizer().init()).unwrap();
                trained(run, &task(), &settings, ranks, None).unwrap().0
            });
            for finished in &resumed {
                assert_eq!(finished.steps, 12);
                assert!(size == 3 || finished.model.bits() == whole[0], "stopped after {at}");
                assert!(finished.model.bits() == resumed[0].model.bits());
            }
        }
    }
}

#[test]
fn running_statistics_are_those_of_the_whole_batch() {
    let _alone = alone();
    // The parameters stay, so that the batch norm of every run has the same input.
    let statistics = |size: usize, accumulate: usize| {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), 2);
        (settings.learning_rate, settings.accumulate) = (1e-30, accumulate);
        let ranks = all_trained(calm(size), task, &settings, None);
        let models: Vec<_> = ranks.into_iter().map(|rank| rank.unwrap().0.model.valid()).collect();
        let norm = &models[0].norm;
        let read = |tensor: Tensor<1>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
        [read(norm.running_mean.value_sync()), read(norm.running_var.value_sync())]
    };
    for accumulate in [1, 2] {
        let whole = statistics(1, accumulate);
        for size in [2, 3] {
            let merged = statistics(size, accumulate);
            for (merged, whole) in merged.iter().flatten().zip(whole.iter().flatten()) {
                let far = (merged - whole).abs();
                assert!(far <= 2e-6 * whole.abs().max(0.1), "{size} ranks: {merged}, {whole}");
            }
        }
    }
}

#[test]
fn a_batch_norm_that_does_not_synchronize_is_an_error_of_all() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let engines = Threads::group(2, Duration::from_secs(60));
    let ended: Vec<_> = thread::scope(|scope| {
        let ranks: Vec<_> = engines
            .into_iter()
            .zip(calm(2))
            .map(|(engine, model)| {
                let folder = folder.path();
                scope.spawn(move || {
                    let ranks = Ranks::new(Shared::new(engine), Wire::F32);
                    let mut ranks = ranks.with_synchronized_batch_norms(|_, _, pass| pass());
                    let run = Run::new(model, optimizer().init());
                    trained(run, &task(), &settings(folder, 1), &mut ranks, None)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    for rank in ended {
        let Err(TrainError::NotSynchronized { path, rank }) = rank else { panic!("{rank:?}") };
        assert_eq!((path.as_str(), rank), ("norm.running_mean", 1));
    }
}

#[test]
fn a_loss_that_is_not_finite_on_one_rank_ends_or_skips_the_update_on_all() {
    let _alone = alone();
    for non_finite in [NonFinite::Stop, NonFinite::Skip { at_most: 20 }] {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path(), 1);
        settings.step.non_finite = non_finite;
        let ended = on_ranks(models(2, linear), |model, ranks| {
            let is_second = ranks.rank() == 1;
            let forward = move |linear: &Linear, images: Tensor<4>| {
                let logits = classify(linear, images);
                if is_second { logits / 0.0 } else { logits }
            };
            let run = Run::new(model, optimizer().init());
            trained(run, &Classify::new(&forward), &settings, ranks, None)
        });
        for rank in ended {
            match (non_finite, rank) {
                (NonFinite::Stop, Err(TrainError::NonFiniteLoss { step, tensor, .. })) => {
                    assert_eq!(step, 0);
                    assert!(tensor.ends_with(" of rank 1"), "{tensor}");
                }
                (NonFinite::Skip { .. }, Ok((finished, _))) => {
                    // Rank 0's own losses were finite.
                    let start = numbers(&linear(&Device::flex().autodiff()));
                    assert!(numbers(&finished.model) == start);
                }
                (_, other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn ranks_that_differ_or_fail_end_the_run_on_all() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ended = on_ranks(models(2, linear), |model, ranks| {
        let mut settings = settings(folder.path(), 1);
        settings.learning_rate *= 1.0 + ranks.rank() as f64;
        let run = Run::new(model, optimizer().init());
        trained(run, &Classify::new(&classify), &settings, ranks, None)
    });
    for rank in ended {
        let text = rank.expect_err("other settings").to_string();
        assert!(text.contains("the settings of the run is"), "{text}");
        assert!(text.contains("on rank 1"), "{text}");
    }

    let mut recomputed = settings(folder.path(), 1);
    recomputed.batch_norm = BatchNormStatistics::Recomputed { batches: 2 };
    for rank in all_trained(calm(2), task, &recomputed, None) {
        let text = rank.expect_err("not on several ranks").to_string();
        assert_eq!(text, "`batch_norm` is recomputed; it must be `running` for several ranks");
    }

    // A rank whose data ends early: the others do not wait for it.
    let ended = on_ranks(models(2, linear), |model, ranks| {
        let task = Classify::new(&classify);
        let settings = settings(folder.path(), 1);
        let run = Run::new(model, optimizer().init());
        if ranks.rank() == 1 { None } else { Some(trained(run, &task, &settings, ranks, None)) }
    });
    let Some(Err(TrainError::Collective { cause })) = &ended[0] else { panic!("{:?}", ended[0]) };
    assert_eq!(*cause, CollectiveError::Lost { rank: 1 });
}

#[test]
fn a_checkpoint_that_rank_0_cannot_write_is_an_error_of_all() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder.path().join("checkpoints"), 1);
    let ended = on_ranks(models(2, linear), |model, ranks| {
        let task = Classify::new(&classify);
        let run = Run::new(model, optimizer().init());
        let device = Device::flex().autodiff();
        let part = Part { index: ranks.rank(), count: 2 };
        let (train, is_first) = (loader_of(1, part), ranks.rank() == 0);
        let data = RunData { train: &train, test: None };
        run.train_on_ranks(&task, &settings, data, &device, ranks, &mut |event, _| {
            if let (Event::Step(report), true) = (event, is_first)
                && report.step == 5
            {
                // As if the run folder were moved during training.
                std::fs::remove_dir(&settings.checkpoints.folder).unwrap();
            }
            Control::Continue
        })
    });
    let texts: Vec<String> =
        ended.into_iter().map(|rank| rank.expect_err("no folder").to_string()).collect();
    assert!(texts[0].contains("checkpoints"), "{}", texts[0]);
    assert!(texts[1].contains(&texts[0]), "{}", texts[1]);
}
