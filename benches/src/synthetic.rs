//! Synthetic runs, for tests.

use crate::catalog;
use crate::machine::{Build, Fingerprint, Machine, Peak};
use crate::measure::{Measured, Outcome, Timing};
use crate::record::Record;
use crate::strategy::Role;

/// A run of the catalogue's first entry on a processor of this name, by strategies with their
/// median in nanoseconds; a strategy without one failed.
pub(crate) fn run(cpu: &str, strategies: &[(&str, Role, Option<f64>)]) -> Record {
    let machine = Machine {
        fingerprint: Fingerprint {
            cpu: cpu.to_owned(),
            isa: Vec::new(),
            logical_cpus: 2,
            usable_cpus: 2,
            memory_bytes: None,
            os: "an OS".to_owned(),
            threads: 2,
        },
        build: Build {
            updraft: "0".to_owned(),
            burn: "0".to_owned(),
            rustc: None,
            commit: None,
            features: Vec::new(),
        },
        peak: Peak { f32_gflops: 1.0, int8_gops: 1.0, copy_gbytes_per_s: 1.0 },
        gpu: None,
    };
    let entry = catalog::entries().remove(0);
    let outcomes = strategies.iter().map(|&(strategy, role, median)| Outcome {
        strategy: strategy.to_owned(),
        role,
        about: None,
        failure: median.is_none().then(|| "it <failed>, and says why at some length ".repeat(4)),
        proof: None,
        timing: median.map(|ns| Timing {
            repetitions: 1,
            first_ns: 1.0,
            wall_ns: vec![ns],
            cpu_ns: vec![1.0],
            starts: Vec::new(),
            peak_bytes: None,
            base_bytes: None,
        }),
    });
    let measured = Measured {
        id: entry.id,
        about: entry.about.to_owned(),
        work: entry.problem.task().work(),
        problem: entry.problem,
        choices: Vec::new(),
        outcomes: outcomes.collect(),
    };
    Record::new(machine, vec![measured])
}
