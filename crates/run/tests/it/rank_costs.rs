//! What ranks exchange and save, counted, and what is estimated.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use updraft_distributed::{Collective, CollectiveError, Shared, Threads, Wire};
use updraft_run::{RankCosts, RunFolder, Training};

use crate::ranks::{IMAGES, Updates, plan, stopped, unlocked};
use crate::train::{ROWS, device, workload};

/// Counts the bytes of all-to-alls, which only sums use.
struct Counting(Threads, Arc<AtomicUsize>);

impl Collective for Counting {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError> {
        self.0.broadcast(root, data)
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.1.fetch_add(send.len(), Ordering::SeqCst);
        self.0.all_to_all(send, receive)
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.0.all_gather(send, receive)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.0.barrier()
    }
}

fn costs_of(text: &str, sets: &[&str]) -> RankCosts {
    let plan = unlocked(text, sets);
    RankCosts::of(&*workload(&plan, None), &plan, &device().0).expect("counted")
}

#[test]
fn the_costs_of_a_plan_are_the_bytes_that_training_exchanges_and_saves() {
    let momentum = "train.optimizer={kind=\"sgd\",momentum=0.9}";
    let frozen = "train.freeze=[{parameters=\"stem\",after_epochs=0}]";
    for (text, sets, ranks) in [
        (ROWS, &[][..], 2),
        (ROWS, &["train.distributed.wire=bf16"], 3),
        (IMAGES, &[], 2),
        (IMAGES, &[momentum, "train.ema_decay=0.9"], 3),
        (IMAGES, &[momentum, frozen], 2),
        (IMAGES, &["train.accumulate=2", "data.train_images=128"], 2),
    ] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = plan(text, sets);
        let stopped = stopped(&plan, dir.path());
        let _alone = updraft_testing::alone();
        let (device, selection) = &device();
        let counted: Vec<Arc<AtomicUsize>> = (0..ranks).map(|_| Arc::default()).collect();
        let engines = Threads::group(ranks, Duration::from_secs(120));
        let path = stopped.path();
        let ended: Vec<u64> = thread::scope(|scope| {
            let ranks = engines.into_iter().zip(&counted).map(|(engine, count)| {
                scope.spawn(move || {
                    let (plan, run) = (unlocked(text, sets), RunFolder::open(path).expect("a run"));
                    let workload = workload(&plan, Some(&run));
                    let training = Training {
                        plan: &plan,
                        device,
                        selection,
                        runs: path,
                        resumed: Some(run),
                        collective: Shared::new(Counting(engine, Arc::clone(count))),
                        trace_steps: None,
                        began: (Instant::now(), None),
                    };
                    let mut updates = Updates::default();
                    workload.train(training, &mut updates).expect("it trains");
                    updates.0.len() as u64
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        });
        let costs = costs_of(text, sets);
        let sums = costs.exchange.sums();
        if sets.contains(&frozen) {
            let trained = costs_of(IMAGES, &[]).exchange;
            assert!(costs.exchange.gradients < trained.gradients, "{costs:?}");
            assert_eq!(costs.exchange.statistics, trained.statistics, "{costs:?}");
        }
        assert_eq!(sums[1].0 > 0, text == IMAGES, "only the network for images has batch norms");
        let bytes = |(numbers, wire): (usize, Wire)| numbers.div_ceil(ranks) * ranks * wire.bytes();
        let expected = ended[0] as usize * sums.into_iter().map(bytes).sum::<usize>();
        for count in counted {
            assert_eq!(count.load(Ordering::SeqCst), expected, "{sets:?}, {ranks} ranks");
        }

        let files = fs::read_dir(stopped.newest_checkpoint().expect("saved")).expect("listed");
        let bytes = files.map(|file| file.expect("a file").metadata().expect("its size").len());
        let (written, estimate) = (bytes.sum::<u64>() as f64, costs.checkpoint_bytes as f64);
        let overhead = written - estimate;
        // Names and shapes, which are most of a checkpoint of a model of a few numbers.
        assert!((0.0..120_000.0).contains(&overhead), "{sets:?}: {written} bytes, {estimate}");
    }
}
