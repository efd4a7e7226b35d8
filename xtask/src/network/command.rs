//! `test-network`: a short training on ranks in network namespaces, whose rate and latency are limited.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;

use serde_json::Value;

use super::measured::{Measured, percentile};
use super::namespaces::{Failure, Network, SUBNET, succeeded};
use super::options::Options;
use crate::cargo::Cargo;
use crate::{complain, is_here, print, refuse, suite, target};

/// The features of the tests over MPI, so that nothing else is compiled again.
const BUILD: Cargo<'_> =
    Cargo::new("build --workspace --features updraft/mpi,updraft-trainer/mpi --bin updraft");

/// The training: the quickstart with a larger batch.
const SET: [&str; 2] = ["--set", "train.batch=128"];

/// The latency of two namespaces without a limit, in µs.
const OWN_US: f64 = 20.0;

/// The key of a latency that the program adds, where the kernel cannot.
const ADDED: &str = "train.distributed.added_latency_us";

/// Starts a program in the namespace of a rank, whose names begin with `$1`.
const RANK: &str = r#"names=$1; shift; exec ip netns exec "$names-$OMPI_COMM_WORLD_RANK" "$@""#;

pub(crate) fn run(arguments: &[String], dry_run: bool) -> ExitCode {
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(message) => return refuse(&message),
    };
    if let Some(missing) = missing() {
        print(&format!("skipped: the network test needs {missing}"));
        return ExitCode::SUCCESS;
    }
    if dry_run {
        print(&format!("> {}", BUILD.typed()));
        print(&format!(
            "> train on {} ranks in namespaces, joined by {} with {}",
            options.ranks, options.rate, options.latency
        ));
        return ExitCode::SUCCESS;
    }
    let network = match Network::new(&options) {
        Ok(network) => network,
        Err(Failure::NotAllowed(reason)) => {
            print(&format!("skipped: this system allows no network namespaces: {reason}"));
            return ExitCode::SUCCESS;
        }
        Err(Failure::Failed(reason)) => return failed(&reason),
    };
    if let Err(code) = BUILD.run() {
        return code;
    }
    match measure(&options, &network) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => failed(&reason),
    }
}

fn failed(reason: &str) -> ExitCode {
    complain(&format!("error: {reason}"));
    ExitCode::FAILURE
}

/// What this machine lacks, if anything.
fn missing() -> Option<String> {
    if cfg!(not(target_os = "linux")) {
        return Some("Linux".to_owned());
    }
    let user = Command::new("id").arg("-u").output();
    if user.is_ok_and(|output| output.stdout.trim_ascii() != b"0") {
        return Some("the user root".to_owned());
    }
    let iproute = |program: &str| Command::new(program).arg("-V").output().is_ok();
    let checks: [(bool, &str); 5] = [
        (iproute("ip"), "`ip` (iproute2)"),
        (iproute("tc"), "`tc` (iproute2)"),
        (is_here("mpirun"), "`mpirun`"),
        (is_here("mpicc"), "`mpicc`"),
        (suite::is_installed(suite::LIBCLANG), "libclang"),
    ];
    let missing: Vec<&str> = checks.iter().filter(|(is, _)| !is).map(|(_, name)| *name).collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

/// Trains, checks the result, and prints the step beside its estimate.
fn measure(options: &Options, network: &Network) -> Result<(), String> {
    let Measured { step_ms, exchange_ms, losses } = train(options, network)?;
    let estimate = Estimate::of(options)?;
    let latency = match network.has_latency {
        true => format!("{} of latency", options.latency),
        false => format!(
            "{} of latency, which the program adds to each message: the kernel has no netem",
            options.latency
        ),
    };
    print(&format!("network    {} ranks, {}, {latency}", options.ranks, options.rate));
    print(&format!("training   loss {:.4} to {:.4}, equal ranks", losses[0], losses[1]));
    for (name, found, estimated) in
        [("exchange", &exchange_ms, estimate.exchange_ms), ("step", &step_ms, estimate.step_ms)]
    {
        let [tenth, median] = [0.1, 0.5].map(|share| percentile(found, share));
        print(&format!(
            "{name:9}  {median:.2} ms in the median, {tenth:.2} ms at the 10th percentile of {} \
             steps; the estimate, {estimated:.2} ms, is {:+.0} % off the median",
            found.len(),
            100.0 * (estimated / median - 1.0)
        ));
    }
    print(&format!("estimate   {}", estimate.command));
    Ok(())
}

/// Trains on the ranks, and reads what they did.
fn train(options: &Options, network: &Network) -> Result<Measured, String> {
    let runs = &network.runs;
    let mut mpirun = network.inside("hub", "mpirun");
    let subnet = format!("{SUBNET}.0/24");
    mpirun.args(["-n", &options.ranks.to_string(), "--oversubscribe", "--bind-to", "none"]);
    mpirun.args(["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", &subnet]);
    mpirun.args(["sh", "-c", RANK, "sh", &network.names]);
    mpirun.arg(program()).args(["train", "--runs"]).arg(runs).args(SET);
    if !network.has_latency {
        mpirun.args(["--set", &format!("{ADDED}={}", options.latency_us)]);
    }
    mpirun.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // Ranks that wait leave the processors to the others.
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        // Large messages in both directions at once.
        ("OMPI_MCA_btl_tcp_flags", "1"),
        // The launcher is reached through the network, because each namespace has its own loopback.
        ("PMIX_MCA_ptl_base_remote_connections", "1"),
        ("PMIX_MCA_ptl_base_if_include", &subnet),
        ("RAYON_NUM_THREADS", "1"),
    ]);
    succeeded(&mut mpirun)?;
    let folders = fs::read_dir(runs).map_err(|cause| format!("{}: {cause}", runs.display()))?;
    let run = folders.flatten().map(|entry| entry.path()).find(|path| path.is_dir());
    let metrics = run.ok_or("the training left no run folder")?.join("metrics.jsonl");
    let text = fs::read_to_string(&metrics).map_err(|cause| format!("metrics: {cause}"))?;
    Measured::read(&text, options.ranks)
}

/// What `scale-estimate` computes.
struct Estimate {
    /// The exchange with its arithmetic.
    exchange_ms: f64,
    step_ms: f64,
    /// The command that computes it.
    command: String,
}

impl Estimate {
    fn of(options: &Options) -> Result<Self, String> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let latency_us = OWN_US + options.latency_us;
        let words = [
            ("--ranks", options.ranks.to_string()),
            ("--bandwidth", options.gbit.to_string()),
            ("--latency", latency_us.to_string()),
            ("--ranks-per-core", (options.ranks as f64 / cores as f64).max(1.0).to_string()),
        ];
        let mut estimate = Command::new(program());
        estimate.arg("scale-estimate").args(SET).arg("--json");
        for (name, value) in &words {
            estimate.args([name, value.as_str()]);
        }
        estimate.env("RAYON_NUM_THREADS", "1");
        let output = succeeded(&mut estimate)?;
        let printed: Value = serde_json::from_slice(&output.stdout)
            .map_err(|cause| format!("scale-estimate prints no JSON: {cause}"))?;
        let ms = |name: &str| {
            let seconds = printed[name].as_f64().ok_or(format!("the estimate has no {name}"));
            seconds.map(|seconds| 1e3 * seconds)
        };
        let words: Vec<_> = words.iter().map(|(name, value)| format!("{name} {value}")).collect();
        Ok(Self {
            exchange_ms: ms("network_s")? + ms("packing_s")?,
            step_ms: ms("step_s")?,
            command: format!("scale-estimate {} {}", SET.join(" "), words.join(" ")),
        })
    }
}

fn program() -> PathBuf {
    target().join("debug").join("updraft")
}
