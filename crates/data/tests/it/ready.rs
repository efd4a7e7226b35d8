//! Whether a batch can be taken without waiting for workers.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use updraft_data::{
    Cue, DataError, Epoch, GeneratedConfig, GeneratedImages, Image, ImageSource, Loader,
    LoaderConfig, Workers,
};

/// Generated images that can be read while a gate is open.
struct Gated {
    drawn: GeneratedImages,
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gated {
    fn set(&self, is_open: bool) {
        *self.is_open.lock().unwrap() = is_open;
        self.changed.notify_all();
    }
}

impl ImageSource for Gated {
    fn len(&self) -> usize {
        self.drawn.len()
    }

    fn classes(&self) -> &[String] {
        self.drawn.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.drawn.label(index)
    }

    fn name(&self, index: usize) -> String {
        self.drawn.name(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        let is_open = self.is_open.lock().unwrap();
        drop(self.changed.wait_while(is_open, |is_open| !*is_open).unwrap());
        self.drawn.read(index)
    }

    fn fingerprint(&self) -> String {
        self.drawn.fingerprint()
    }
}

fn wait_until_ready(epoch: &Epoch) {
    let started = Instant::now();
    while !epoch.is_ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "the batch never became ready");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_batch_of_workers_is_ready_when_it_was_prepared_and_one_without_workers_always() {
    let config = GeneratedConfig::new(Cue::Both, 16).with_size(16, 16);
    let drawn = GeneratedImages::try_new(config).unwrap();
    let (is_open, changed) = (Mutex::new(true), Condvar::new());
    let source = Arc::new(Gated { drawn, is_open, changed });
    let loader = |workers| {
        let config = LoaderConfig::new(4).with_workers(Workers::Count(workers));
        Loader::try_new(Arc::<Gated>::clone(&source), config).unwrap()
    };
    let (without, with) = (loader(0), loader(1));
    source.set(false);
    assert!(without.epoch(0).is_ready());
    let mut epoch = with.epoch(0);
    let was_ready = epoch.is_ready();
    // Before anything may fail: a worker that waits for the gate never ends.
    source.set(true);
    assert!(!was_ready);
    for batch in 0..4 {
        wait_until_ready(&epoch);
        assert_eq!(epoch.next().unwrap().unwrap().len(), 4, "{batch}");
    }
    // The end.
    assert!(epoch.is_ready() && epoch.next().is_none());
}
