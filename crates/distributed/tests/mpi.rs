//! The engine `Mpi`: starts this program again by `mpirun`, with one to four ranks.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test without a harness"
)]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use updraft_distributed::{
    AllReduce, Collective, Launch, Mpi, Stalled, Watched, Wire, agree, gather, sum_f64,
};

fn main() {
    let launch = Launch::detect(|name| std::env::var(name).ok()).unwrap();
    match (launch, std::env::args().nth(1).as_deref()) {
        (Some(launch), Some(program)) => as_rank(launch, program),
        _ => start(),
    }
}

/// Starts the ranks and checks what they print.
fn start() {
    let mut digests = Vec::new();
    for ranks in [1, 2, 4, 4] {
        let output = mpirun(ranks, "sums");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{ranks} ranks: {text}{output:?}");
        digests.push(text.lines().find(|line| line.starts_with("digest")).unwrap().to_owned());
        println!("{ranks} ranks over MPI: sums in the order of ranks, the same bits on all");
    }
    assert_eq!(digests[2], digests[3], "two runs of four ranks");

    for program in ["panic", "hang"] {
        let started = Instant::now();
        let output = mpirun(3, program);
        assert!(!output.status.success(), "{program}: {output:?}");
        assert!(started.elapsed() < Duration::from_secs(30), "{program}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = match program {
            "panic" => "rank 1 fails",
            _ => "rank 0 stalled in barrier without [1]",
        };
        assert_eq!(errors.matches(expected).count(), 1, "{program}: {errors}");
        assert!(!errors.contains("stalled in barrier without [0"), "one report: {errors}");
        assert!(!errors.contains("Signal:"), "no stack trace of MPI: {errors}");
        println!("a rank that does not go on ({program}) ends all ranks");
    }
}

fn mpirun(ranks: usize, program: &str) -> Output {
    Command::new("mpirun")
        .args(["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", "none"])
        .args(["--mca", "btl_vader_single_copy_mechanism", "none"])
        .arg(std::env::current_exe().unwrap())
        .arg(program)
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .output()
        .expect("mpirun has to be installed for this test")
}

/// The work of one rank.
fn as_rank(launch: Launch, program: &str) {
    let mut world = Mpi::start().unwrap();
    assert_eq!((world.rank(), world.size()), (launch.rank, launch.size));
    assert!(Mpi::start().is_none() && !world.library().is_empty());
    let is_second = world.rank() == 1;
    match program {
        "sums" => sums(&mut world),
        "panic" => {
            assert!(!is_second, "rank 1 fails");
            world.barrier().unwrap();
        }
        "hang" => {
            let signals = world.signals();
            assert!(signals.is_some(), "a library without threads cannot name ranks");
            let mut watched = Watched::new(world, Duration::from_millis(500), signals, |stalled| {
                let Stalled { rank, call, absent, .. } = stalled;
                eprintln!("rank {rank} stalled in {call} without {:?}", absent.unwrap());
                Mpi::abort(3);
            });
            if is_second {
                std::thread::sleep(Duration::from_secs(60));
            }
            watched.barrier().unwrap();
        }
        other => panic!("there is no program `{other}`"),
    }
}

/// The numbers of one rank.
fn numbers(rank: usize) -> Vec<f32> {
    (0..100_003).map(|i| ((i * 31 + rank * 17) % 1000) as f32 * 1e-3 + 1e-4).collect()
}

fn sums(world: &mut Mpi) {
    let (rank, size) = (world.rank(), world.size());
    agree(world, "size", &size.to_string()).unwrap();
    let texts = gather(world, &vec![7; rank]).unwrap();
    assert!(texts.iter().enumerate().all(|(rank, text)| *text == vec![7; rank]));
    let mut count = [1.0];
    sum_f64(world, &mut count).unwrap();
    assert_eq!(count, [size as f64]);

    let mut digest = 0u64;
    for wire in [Wire::F32, Wire::Bf16] {
        let mut mine = numbers(rank);
        AllReduce::new(wire).sum(world, &mut mine).unwrap();
        if wire == Wire::F32 {
            let in_order = |i: usize| (1..size).fold(numbers(0)[i], |sum, r| sum + numbers(r)[i]);
            assert!((0..5).all(|i| mine[i].to_bits() == in_order(i).to_bits()));
        }
        for number in &mine {
            digest = digest.rotate_left(5) ^ u64::from(number.to_bits());
        }
        let mut of_root = digest.to_le_bytes();
        world.broadcast(0, &mut of_root).unwrap();
        assert_eq!(u64::from_le_bytes(of_root), digest, "rank {rank} differs from rank 0");
    }
    if rank == 0 {
        println!("digest {digest:016x}");
    }
}
