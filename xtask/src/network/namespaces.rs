//! Network namespaces of ranks, joined by a bridge, whose rate and latency are limited.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Output, Stdio};

use super::options::Options;

/// The addresses of the ranks; the bridge is the first one.
pub(super) const SUBNET: &str = "10.213.0";

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

/// Why there is no network.
pub(super) enum Failure {
    /// The system refuses the first namespace or link.
    NotAllowed(String),
    Failed(String),
}

/// Namespaces of the ranks, and one with a bridge between them, which are removed with this value.
pub(super) struct Network {
    /// The beginning of their names.
    pub(super) names: String,
    /// The folder of the runs, which is removed, too.
    pub(super) runs: PathBuf,
    /// Whether the latency is limited.
    pub(super) has_latency: bool,
    _guard: Guard,
}

impl Network {
    pub(super) fn new(options: &Options) -> Result<Self, Failure> {
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
    pub(super) fn inside(&self, name: &str, program: &str) -> Command {
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

/// The output of a command that has to succeed.
pub(super) fn succeeded(command: &mut Command) -> Result<Output, String> {
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
