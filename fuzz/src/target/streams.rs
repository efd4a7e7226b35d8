//! The state from which a stream of batches resumes.

use std::sync::{Arc, LazyLock};

use updraft_data::{
    Cue, GeneratedConfig, GeneratedImages, Loader, LoaderConfig, LoaderState, Order, Workers,
};

static LOADER: LazyLock<Loader> = LazyLock::new(|| {
    let images = GeneratedConfig::new(Cue::Color, 12).with_size(16, 16);
    let images = GeneratedImages::try_new(images).expect("valid settings");
    let config = LoaderConfig::new(4).with_order(Order::Shuffled).with_workers(Workers::Count(0));
    Loader::try_new(Arc::new(images), config).expect("a loader")
});

pub(super) fn loader_state(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<LoaderState>(bytes) else { return };
    if let Ok(mut epoch) = LOADER.resume(&state) {
        let left = epoch.by_ref().take(4).filter(Result::is_ok).count();
        assert!(left <= 3);
    }
}

pub(super) fn loader_state_seeds() -> Vec<Vec<u8>> {
    let mut epoch = LOADER.epoch(1);
    let mut seeds = Vec::new();
    for _ in 0..3 {
        seeds.push(serde_json::to_vec(&epoch.state()).expect("a state"));
        epoch.next().expect("a batch").expect("drawn");
    }
    seeds
}
