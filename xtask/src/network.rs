//! `test-network`: a short training on ranks in network namespaces, whose rate and latency are limited.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitCode, Output, Stdio};

use serde_json::Value;

use crate::cargo::Cargo;
use crate::network_options::Options;
use crate::{complain, is_here, print, refuse, suite, target};

/// The features of the tests over MPI, so that nothing else is compiled again.
const BUILD: Cargo<'_> =
    Cargo::new("build --workspace --features updraft/mpi,updraft-trainer/mpi --bin updraft");

/// The training: the quickstart with a larger batch.
const SET: [&str; 2] = ["--set", "train.batch=128"];

/// The addresses of the ranks; the bridge is the first one.
const SUBNET: &str = "10.213.0";

/// The latency of the estimate where the kernel cannot limit it, in µs: about that of two namespaces.
const UNLIMITED_US: f64 = 20.0;

/// Removes the namespaces whose names begin with `$1`, ends what runs in them, and removes the folder
/// `$2`, when its standard input is closed: also if the process that holds the other end was killed.
const GUARD: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
for name in $(ip netns list | cut -d' ' -f1); do
    case $name in
        "$1"-*)
            for id in $(ip netns pids "$name"); do kill -9 "$id"; done
            ip netns del "$name";;
    esac
done 2> /dev/null
rm -rf "$2"
"#;

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

/// Trains, checks the result, and prints the exchange beside its estimate.
fn measure(options: &Options, network: &Network) -> Result<(), String> {
    let Measured { exchange_ms, losses } = train(options, network)?;
    let latency_us = if network.has_latency { options.latency_us } else { UNLIMITED_US };
    let estimate_ms = estimate_ms(options, latency_us)?;
    let [tenth, median] = [0.1, 0.5].map(|share| percentile(&exchange_ms, share));
    let latency = match network.has_latency {
        true => format!("{} of latency", options.latency),
        false => "the latency is not limited: the kernel has no netem".to_owned(),
    };
    print(&format!("network    {} ranks, {}, {latency}", options.ranks, options.rate));
    print(&format!("training   loss {:.4} to {:.4}, equal ranks", losses[0], losses[1]));
    print(&format!(
        "exchange   {median:.2} ms in the median, {tenth:.2} ms at the 10th percentile of {} steps",
        exchange_ms.len()
    ));
    print(&format!(
        "estimate   {estimate_ms:.2} ms with {:.3} ms of latency (scale-estimate)",
        1e-3 * latency_us
    ));
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
    mpirun.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // Ranks that wait leave the processors to the others.
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
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

/// What a run recorded.
#[derive(Debug, PartialEq)]
struct Measured {
    /// The exchange of each update on rank 0.
    exchange_ms: Vec<f64>,
    /// The training losses of the first and the last epoch.
    losses: [f64; 2],
}

impl Measured {
    /// Reads the lines of metrics.
    ///
    /// # Errors
    /// For a loss that did not fall, or ranks that do not have the same parameters after each epoch.
    fn read(text: &str, ranks: usize) -> Result<Self, String> {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (mut exchange_ms, mut losses) = (Vec::new(), Vec::new());
        for line in lines {
            match line["event"].as_str() {
                Some("step") => {
                    let exchange_us = line["exchange_us"].as_f64();
                    exchange_ms.push(1e-3 * exchange_us.ok_or("a step has no exchange")?);
                }
                Some("epoch") => {
                    losses.extend(line["train"]["loss"].as_f64());
                    check_ranks(&line, ranks)?;
                }
                _ => {}
            }
        }
        let (Some(first), Some(last)) = (losses.first(), losses.last()) else {
            return Err("the run has no epoch with a loss".to_owned());
        };
        let has_fallen = last < first;
        if !has_fallen {
            return Err(format!("the training loss is {last} after {first}; it must fall"));
        }
        if exchange_ms.is_empty() {
            return Err("the run has no step".to_owned());
        }
        Ok(Self { exchange_ms, losses: [*first, *last] })
    }
}

/// Checks that an epoch is of so many ranks, with the same parameters.
fn check_ranks(epoch: &Value, ranks: usize) -> Result<(), String> {
    let number = &epoch["epoch"];
    let of_ranks = epoch["ranks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if of_ranks.len() != ranks {
        return Err(format!("epoch {number} is of {} ranks instead of {ranks}", of_ranks.len()));
    }
    let parameters = of_ranks.iter().map(|rank| rank["parameters"].as_u64());
    let parameters: Vec<u64> =
        parameters.collect::<Option<_>>().ok_or("a rank has no fingerprint of its parameters")?;
    match parameters.iter().position(|other| *other != parameters[0]) {
        None => Ok(()),
        Some(rank) => {
            Err(format!("rank {rank} has other parameters than rank 0 after epoch {number}"))
        }
    }
}

/// The exchange that `scale-estimate` computes, with its arithmetic.
fn estimate_ms(options: &Options, latency_us: f64) -> Result<f64, String> {
    let mut estimate = Command::new(program());
    estimate.arg("scale-estimate").args(SET).args(["--json", "--step-ms", "1"]);
    estimate.args(["--ranks", &options.ranks.to_string()]);
    estimate.args(["--bandwidth", &options.gbit.to_string()]);
    estimate.args(["--latency", &latency_us.to_string()]);
    estimate.env("RAYON_NUM_THREADS", "1");
    let output = succeeded(&mut estimate)?;
    let printed: Value = serde_json::from_slice(&output.stdout)
        .map_err(|cause| format!("scale-estimate prints no JSON: {cause}"))?;
    let seconds = |name: &str| printed[name].as_f64().ok_or(format!("the estimate has no {name}"));
    Ok(1e3 * (seconds("network_s")? + seconds("arithmetic_s")?))
}

fn program() -> PathBuf {
    target().join("debug").join("updraft")
}

/// The nearest rank.
fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// The output of a command that has to succeed.
fn succeeded(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|cause| format!("`{name}` cannot be started: {cause}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let typed: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    Err(format!("`{name} {}` failed: {}", typed.join(" "), said.trim()))
}

/// Why there is no network.
enum Failure {
    /// The system refuses the first namespace or link.
    NotAllowed(String),
    Failed(String),
}

/// Namespaces of the ranks, and one with a bridge between them, which are removed with this value.
struct Network {
    /// The beginning of their names.
    names: String,
    /// The folder of the runs, which is removed, too.
    runs: PathBuf,
    /// Whether the latency is limited.
    has_latency: bool,
    _guard: Guard,
}

impl Network {
    fn new(options: &Options) -> Result<Self, Failure> {
        let names = format!("updraft-{}", std::process::id());
        let runs = std::env::temp_dir().join(&names);
        let guard = Guard::start(&names, &runs).map_err(Failure::Failed)?;
        let mut network = Self { names, runs, has_latency: true, _guard: guard };
        network.add("hub").map_err(Failure::NotAllowed)?;
        let bridge = ["link", "add", "name", "hub0", "type", "bridge"];
        network.ip("hub", &bridge).map_err(Failure::NotAllowed)?;
        network.join(options).map_err(Failure::Failed)?;
        Ok(network)
    }

    /// Adds the ranks' namespaces, each joined with the bridge.
    fn join(&mut self, options: &Options) -> Result<(), String> {
        self.ip("hub", &["addr", "add", &format!("{SUBNET}.1/24"), "dev", "hub0"])?;
        self.ip("hub", &["link", "set", "hub0", "up"])?;
        for rank in 0..options.ranks {
            let (name, port) = (rank.to_string(), format!("port{rank}"));
            self.add(&name)?;
            let inside = self.namespace(&name);
            let pair = ["link", "add", &port, "type", "veth", "peer", "name", "net0", "netns"];
            self.ip("hub", &[&pair[..], &[&inside]].concat())?;
            self.ip("hub", &["link", "set", &port, "master", "hub0"])?;
            self.ip("hub", &["link", "set", &port, "up"])?;
            let address = format!("{SUBNET}.{}/24", rank + 2);
            self.ip(&name, &["addr", "add", &address, "dev", "net0"])?;
            self.ip(&name, &["link", "set", "net0", "up"])?;
            self.limit(&name, options)?;
        }
        Ok(())
    }

    /// Limits what a rank sends: its rate, and the latency where the kernel can.
    fn limit(&mut self, name: &str, options: &Options) -> Result<(), String> {
        let namespace = self.namespace(name);
        let tc = |words: &[&str]| {
            let mut tc = Command::new("tc");
            tc.args(["-n", &namespace, "qdisc", "add", "dev", "net0"]).args(words);
            succeeded(&mut tc).map(drop)
        };
        // A burst is sent at once; a smaller one than a millisecond's is sent too late on a busy
        // machine.
        let burst = format!("{}b", (options.gbit * 1e9 / 8.0 * 1e-3).max(16_384.0).ceil());
        let rate = ["root", "handle", "1:", "tbf", "rate", &options.rate, "burst", &burst];
        tc(&[&rate[..], &["latency", "100ms"]].concat())?;
        if options.latency_us > 0.0 && self.has_latency {
            let delay = ["parent", "1:1", "netem", "delay", &options.latency, "limit", "100000"];
            self.has_latency = tc(&delay).is_ok();
        }
        Ok(())
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.names)
    }

    fn add(&self, name: &str) -> Result<(), String> {
        let namespace = self.namespace(name);
        succeeded(Command::new("ip").args(["netns", "add", &namespace]))?;
        self.ip(name, &["link", "set", "lo", "up"])
    }

    /// Runs `ip` in a namespace.
    fn ip(&self, name: &str, words: &[&str]) -> Result<(), String> {
        let namespace = self.namespace(name);
        succeeded(Command::new("ip").args(["-n", &namespace]).args(words)).map(drop)
    }

    /// A program in a namespace.
    fn inside(&self, name: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(name), program]);
        command
    }
}

/// A process that removes the namespaces when this one ends, however it ends.
struct Guard {
    process: std::process::Child,
    open: Option<ChildStdin>,
}

impl Guard {
    fn start(names: &str, runs: &Path) -> Result<Self, String> {
        let mut sh = Command::new("sh");
        let spawned = sh.args(["-c", GUARD, "sh", names]).arg(runs).stdin(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|cause| format!("`sh` cannot be started: {cause}"))?;
        let open = process.stdin.take();
        Ok(Self { process, open })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.open.take());
        // It has been started, and ends by itself.
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_falling_loss_and_equal_ranks() {
        let text = |losses: [f64; 2], parameters: [u64; 2]| {
            let step = r#"{"event":"step","exchange_us":1500}"#;
            let epoch = |loss: f64| {
                let [first, second] = parameters;
                format!(
                    r#"{{"event":"epoch","epoch":1,"train":{{"loss":{loss}}},"ranks":[{{"parameters":{first}}},{{"parameters":{second}}}]}}"#
                )
            };
            format!("{step}\n{}\n{step}\n{}\n", epoch(losses[0]), epoch(losses[1]))
        };
        let measured = Measured::read(&text([2.0, 1.0], [7, 7]), 2).unwrap();
        assert_eq!(measured, Measured { exchange_ms: vec![1.5, 1.5], losses: [2.0, 1.0] });
        let refused = |text: &str, ranks| Measured::read(text, ranks).unwrap_err();
        assert!(refused(&text([1.0, 2.0], [7, 7]), 2).contains("it must fall"));
        assert!(refused(&text([2.0, 1.0], [7, 8]), 2).contains("rank 1 has other parameters"));
        assert!(refused(&text([2.0, 1.0], [7, 7]), 3).contains("of 2 ranks instead of 3"));
        assert!(refused("", 2).contains("no epoch"));
    }

    #[test]
    fn percentiles_are_the_nearest_ranks() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!([0.1, 0.5, 1.0].map(|share| percentile(&values, share)), [1.0, 5.0, 10.0]);
    }
}
