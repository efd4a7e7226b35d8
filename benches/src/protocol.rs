//! The protocol of the runner and its workers: one JSON value per line.
//!
//! A worker is a separate process, so that peers in any language use the same protocol, and no
//! strategy is affected by the thread pools or the memory of another.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// A request of the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Prepare a problem; all later requests refer to it.
    Prepare {
        problem: Problem,
        strategy: String,
        /// The folder of the problem's input files and of the results.
        folder: PathBuf,
        threads: usize,
    },
    /// Compute from the problem's inputs, and write each result to `folder/<name>.f64`:
    /// little-endian, row by row.
    Prove,
    /// Compute so many times.
    Repeat { times: u64 },
}

/// The answer of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The problem is ready; `about` names what will compute, with its version.
    Prepared { about: String },
    /// The results are written under these names.
    Proved { outputs: Vec<String> },
    /// The repetitions took so long on the monotonic clock and on all threads' processor clocks.
    Repeated {
        wall_ns: u64,
        cpu_ns: u64,
        peak_bytes: Option<u64>,
        /// The memory of the program before the problem was prepared.
        #[serde(default)]
        base_bytes: Option<u64>,
    },
    /// The problem is not supported here.
    Failed { reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn every_problem_survives_the_way_to_a_worker() {
        for entry in catalog::entries() {
            let request = Request::Prepare {
                problem: entry.problem,
                strategy: "flex".to_owned(),
                folder: PathBuf::from("somewhere"),
                threads: 2,
            };
            let line = serde_json::to_string(&request).expect("serialisable");
            assert!(!line.contains('\n'));
            assert_eq!(request, serde_json::from_str(&line).expect("its own text"));
        }
    }
}
