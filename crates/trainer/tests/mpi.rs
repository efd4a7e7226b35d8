//! Training over MPI: starts this program again by `mpirun`, kills a rank, and resumes.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "a test without a harness, with helpers of the other tests"
)]

#[path = "it/small.rs"]
mod small;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use updraft_data::Part;
use updraft_distributed::{Collective, Launch, Mpi, Shared, Wire, gather};
use updraft_trainer::{Control, Event, Ranks, Run, RunData, list_checkpoints};

use crate::small::{Classifier, loader_of, new_run, optimizer, settings, task};

/// The step at which a rank is killed, in the middle of the second epoch.
const KILLED_AT: u64 = 8;

fn main() {
    let launch = Launch::detect(|name| std::env::var(name).ok()).unwrap();
    let mut arguments = std::env::args().skip(1);
    match (launch, arguments.next().as_deref(), arguments.next()) {
        (Some(_), Some(program), Some(folder)) => as_rank(program, Path::new(&folder)),
        _ => start(),
    }
}

/// Starts the ranks and compares the weights that they print.
fn start() {
    let fresh = || tempfile::tempdir().unwrap();
    for ranks in [1, 2, 3] {
        let whole = digest(&mpirun(ranks, "train", fresh().path()));
        assert_eq!(digest(&mpirun(ranks, "train", fresh().path())), whole, "{ranks} ranks");
        println!("{ranks} ranks over MPI: the same weights on all and in a second run");
        if ranks == 1 {
            continue;
        }
        let folder = fresh();
        let started = Instant::now();
        let killed = mpirun(ranks, "die", folder.path());
        assert!(!killed.status.success(), "{killed:?}");
        assert!(started.elapsed() < Duration::from_secs(60), "the other ranks end, too");
        assert_eq!(digest(&mpirun(ranks, "train", folder.path())), whole, "{ranks} ranks resumed");
        println!(
            "rank {} of {ranks} died at step {KILLED_AT}: resumed to the same weights",
            ranks - 1
        );
    }
}

fn mpirun(ranks: usize, program: &str, folder: &Path) -> Output {
    Command::new("mpirun")
        .args(["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", "none"])
        .args(["--mca", "btl_vader_single_copy_mechanism", "none"])
        .arg(std::env::current_exe().unwrap())
        .arg(program)
        .arg(folder)
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .output()
        .expect("mpirun has to be installed for this test")
}

fn digest(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{output:?}");
    text.lines().find(|line| line.starts_with("weights")).unwrap().to_owned()
}

/// Trains as one rank, from the newest checkpoint if there is one.
fn as_rank(program: &str, folder: &Path) {
    let mut mpi = Shared::new(Mpi::start().unwrap());
    let (rank, size) = (mpi.rank(), mpi.size());
    let device = Device::flex().autodiff();
    let part = Part { index: rank, count: size };
    let (train, test) = (loader_of(1, part), loader_of(2, part));
    let mut settings = settings(folder, 2);
    settings.checkpoints.every_steps = Some(4);
    let run = match newest(folder) {
        Some(path) => Run::resume(&path, Classifier::new(&device), optimizer().init()).unwrap(),
        None => new_run(&device),
    };
    let data = RunData { train: &train, test: Some(&test) };
    let mut ranks = Ranks::new(mpi.clone(), Wire::F32);
    let finished =
        run.train_on_ranks(&task(), &settings, data, &device, &mut ranks, &mut |event, _| {
            let is_last = rank + 1 == size;
            if matches!(event, Event::Step(report) if report.step == KILLED_AT)
                && is_last
                && program == "die"
            {
                std::process::abort();
            }
            Control::Continue
        });
    let bits = finished.unwrap().model.bits();
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let all = gather(&mut mpi, &bytes).unwrap();
    assert!(all.iter().all(|other| *other == bytes), "every rank has the same weights");
    if rank == 0 {
        let hash = bits
            .iter()
            .fold(0_u64, |hash, &bits| (hash ^ u64::from(bits)).wrapping_mul(0x0100_0000_01b3));
        println!("weights {hash:016x}");
    }
}

fn newest(folder: &Path) -> Option<PathBuf> {
    list_checkpoints(folder).unwrap().pop()
}
