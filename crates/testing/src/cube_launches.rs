//! The kernels that some work launches on a GPU.

use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use cubecl::logging::{LaunchObservation, LaunchObserver};

/// The types of the kernels that were launched.
#[derive(Default)]
struct Launched(Mutex<Vec<&'static str>>);

impl LaunchObserver for Launched {
    fn launched(&self, kernel: &'static str) {
        self.0.lock().expect("no thread panicked with it").push(kernel);
    }
}

/// The result of some work, and the types of the kernels that were launched meanwhile, in order: of
/// the work alone, because [`gpus`](crate::gpus) holds off all other tests on GPUs.
///
/// # Panics
/// If the device does not work.
pub fn launches<T>(device: &Device, work: impl FnOnce() -> T) -> (T, Vec<&'static str>) {
    device.sync().expect("the device works");
    let launched = Arc::new(Launched::default());
    let observation = LaunchObservation::new(launched.clone());
    let result = work();
    device.sync().expect("the device works");
    drop(observation);
    let kernels = launched.0.lock().expect("no thread panicked with it").clone();
    (result, kernels)
}
