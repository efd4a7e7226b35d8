//! Scoring a model on several ranks, which are threads here: the bits of one rank.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::Device;
use updraft_data::{
    Cue, DataError, FaultPolicy, GeneratedConfig, GeneratedImages, Image, ImageBatch, ImageSource,
    Loader, LoaderConfig,
};
use updraft_distributed::{CollectiveError, Threads};
use updraft_precision::Policy;
use updraft_testing::alone;
use updraft_trainer::{
    BatchStream, ClassCounts, Control, Counted, EpochStream, Evaluated, TrainError, evaluate,
    evaluate_on_ranks,
};

use crate::small::{Classifier, loader, task};

type Scored = Result<Option<Evaluated<ClassCounts>>, TrainError>;

/// Scores the streams of several ranks, and returns what each rank returned.
fn on_ranks<S: BatchStream<ImageBatch>>(
    size: usize,
    stream: impl Fn() -> S + Sync,
    poll: impl Fn(usize, usize) -> Control + Sync,
) -> Vec<Scored> {
    let engines = Threads::group(size, Duration::from_secs(60));
    // Threads of one process draw from the same random numbers.
    let model = model();
    thread::scope(|scope| {
        let ranks = engines.into_iter().enumerate().map(|(rank, mut engine)| {
            let (stream, poll, model) = (&stream, &poll, model.clone());
            scope.spawn(move || {
                let (device, stream) = (Device::flex(), stream());
                let on = (&device, Policy::F32);
                evaluate_on_ranks(&task(), &model, &stream, on, &mut engine, &mut |samples| {
                    poll(rank, samples)
                })
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn model() -> Classifier {
    Classifier::calm(&Device::flex().autodiff()).valid()
}

fn on_one(stream: &dyn BatchStream<ImageBatch>) -> Evaluated<ClassCounts> {
    let device = Device::flex();
    let poll = &mut |_| Control::Continue;
    evaluate(&task(), &model(), stream, &device, Policy::F32, poll).unwrap().unwrap()
}

/// The batches of a loader as a stream without a method for parts.
struct Iterated(Loader);

impl BatchStream<ImageBatch> for Iterated {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<ImageBatch> + '_> {
        Box::new(Counted::new(self.0.epoch(epoch).map(|batch| Ok(batch?))))
    }

    fn batches(&self) -> usize {
        self.0.batches()
    }

    fn samples(&self) -> usize {
        self.0.samples()
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }
}

/// A source of which the whole second batch and some others cannot be read.
struct Torn(GeneratedImages);

impl ImageSource for Torn {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn name(&self, index: usize) -> String {
        self.0.name(index)
    }

    fn classes(&self) -> &[String] {
        self.0.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.0.label(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        match index {
            8..=15 | 17 | 40 => Err(DataError::Empty),
            _ => self.0.read(index),
        }
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }
}

fn torn(at_most: u64) -> Loader {
    let images = GeneratedConfig::new(Cue::Color, 45).with_size(16, 16);
    let images = Arc::new(Torn(GeneratedImages::try_new(images).unwrap()));
    let config = LoaderConfig::new(8).with_faults(FaultPolicy::Skip { at_most });
    Loader::try_new(images, config).unwrap()
}

#[test]
fn the_score_of_any_number_of_ranks_has_the_bits_of_one() {
    let _alone = alone();
    let calm = |_, _| Control::Continue;
    let same = |expected: &Evaluated<ClassCounts>, scored: Vec<Scored>| {
        for (rank, found) in scored.into_iter().enumerate() {
            let found = found.unwrap().unwrap();
            let bits = |it: &Evaluated<ClassCounts>| it.evaluation.loss().to_bits();
            assert_eq!(bits(&found), bits(expected), "rank {rank}");
            assert_eq!(found, *expected, "rank {rank}");
        }
    };
    let expected = on_one(&loader(1));
    assert_eq!(expected.evaluation.samples, 48);
    // Six batches: with eight ranks, two have none.
    for size in [2, 3, 4, 8] {
        same(&expected, on_ranks(size, || loader(1), calm));
        same(&expected, on_ranks(size, || Iterated(loader(1)), calm));
    }
    // Skipped samples leave their batches smaller, and one batch out.
    let expected = on_one(&torn(10));
    assert_eq!(expected.evaluation.samples, 35);
    for size in [2, 3, 6] {
        same(&expected, on_ranks(size, || torn(10), calm));
    }
}

#[test]
fn each_rank_scores_its_own_batches_only() {
    let _alone = alone();
    let seen = std::sync::Mutex::new(vec![Vec::new(); 4]);
    for scored in on_ranks(
        4,
        || loader(1),
        |rank, samples| {
            seen.lock().unwrap()[rank].push(samples);
            Control::Continue
        },
    ) {
        scored.unwrap().unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [vec![8, 16], vec![8, 16], vec![8], vec![8]]);
}

#[test]
fn a_rank_that_stops_or_fails_leaves_the_others_without_a_score() {
    let _alone = alone();
    let stop_at_1 = |rank, _| if rank == 1 { Control::Stop } else { Control::Continue };
    let [first, second] = on_ranks(2, || loader(1), stop_at_1).try_into().unwrap();
    assert!(second.unwrap().is_none());
    let Err(TrainError::Collective { cause }) = first else { panic!("{first:?}") };
    assert_eq!(cause, CollectiveError::Lost { rank: 1 });
    // The limit of skipped samples counts those of each rank: 9 of the first, 1 of the second.
    let calm = |_, _| Control::Continue;
    let [first, second] = on_ranks(2, || torn(8), calm).try_into().unwrap();
    let Err(TrainError::Evaluation { .. }) = first else { panic!("{first:?}") };
    let Err(TrainError::Collective { cause }) = second else { panic!("{second:?}") };
    assert_eq!(cause, CollectiveError::Lost { rank: 0 });
}
