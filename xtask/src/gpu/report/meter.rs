//! What measures a card while a benchmark runs.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::samples::{Sample, Summary};
use super::{amd, nvidia};

/// The time between two samples of what is read from files.
const INTERVAL: Duration = Duration::from_millis(500);

/// The source of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meter {
    /// `nvidia-smi`, which reads NVML, for a card by its identifier.
    Nvidia { uuid: String },
    /// The files of a card of AMD.
    Amd { device: PathBuf },
    /// None, with the reason.
    Nothing(&'static str),
}

impl Meter {
    /// The values now.
    pub(super) fn sample(&self) -> Option<Sample> {
        match self {
            Self::Nvidia { uuid } => nvidia::sample(uuid),
            Self::Amd { device } => Some(amd::sample(device)),
            Self::Nothing(_) => None,
        }
    }

    /// Samples until [`Running::stop`].
    pub(super) fn start(&self) -> Running {
        let stops = Arc::new(AtomicBool::new(false));
        let mut running = Running { stops: Arc::clone(&stops), child: None, thread: None };
        match self {
            Self::Nvidia { uuid } => {
                let Ok(mut child) = nvidia::start_samples(uuid) else { return running };
                let lines = child.stdout.take().map(|printed| BufReader::new(printed).lines());
                running.child = Some(child);
                running.thread = Some(thread::spawn(move || {
                    let lines = lines.into_iter().flatten().map_while(Result::ok);
                    lines.filter_map(|line| nvidia::parse_sample(&line)).collect()
                }));
            }
            Self::Amd { device } => {
                let device = device.clone();
                running.thread = Some(thread::spawn(move || {
                    let mut samples = Vec::new();
                    while !stops.load(Ordering::Relaxed) {
                        samples.push(amd::sample(&device));
                        thread::sleep(INTERVAL);
                    }
                    samples
                }));
            }
            Self::Nothing(_) => {}
        }
        running
    }
}

/// A card that is sampled.
pub(super) struct Running {
    stops: Arc<AtomicBool>,
    child: Option<Child>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

impl Running {
    /// The samples so far; `None` if there are none.
    pub(super) fn stop(self) -> Option<Summary> {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(mut child) = self.child {
            // It has ended by itself where the driver has stopped.
            let _ = child.kill();
            let _ = child.wait();
        }
        Summary::of(&self.thread?.join().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_source_there_are_no_samples() {
        let meter = Meter::Nothing("a reason");
        assert_eq!(meter.sample(), None);
        assert_eq!(meter.start().stop(), None);
    }

    #[test]
    fn a_card_is_sampled_until_it_is_stopped() {
        // A folder without files: a sample without values, which is no summary.
        let meter = Meter::Amd { device: PathBuf::from("no such folder") };
        let running = meter.start();
        assert_eq!(running.stop(), None);
    }
}
