//! The benchmark runner: checks strategies, then times them together with the peers.

mod arguments;
mod catalog;
mod clock;
mod formula;
mod gpu;
mod guard;
mod host;
mod kernels;
mod machine;
mod measure;
mod network;
mod peers;
mod problem;
mod protocol;
mod record;
mod report;
mod roofline;
mod statistics;
mod strategy;
#[cfg(test)]
mod synthetic;
mod table;
mod volume_network;
mod worker;

use std::collections::BTreeSet;
use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use updraft_allocator::ReuseBlocks;

use crate::arguments::{Arguments, Command, RunArguments};
use crate::catalog::Entry;
use crate::gpu::Gpu;
use crate::guard::Guard;
use crate::host::Programs;
use crate::machine::Machine;
use crate::measure::{Effort, Outcome, measure};
use crate::record::Record;
use crate::strategy::{Host, Role, Strategy};

/// The allocator of the program `updraft`, too.
#[global_allocator]
static MEMORY: ReuseBlocks = ReuseBlocks::new();

fn main() -> ExitCode {
    // As in the program: the allocator keeps memory for all operations.
    updraft_simd::set_memory_capacity(0);
    let arguments = Arguments::parse();
    let result = match arguments.command {
        None => run(&arguments.run),
        Some(Command::Compare { dry_run: true, .. } | Command::Report { dry_run: true, .. }) => {
            Ok(())
        }
        Some(Command::Compare { before, after, .. }) => compare(&before, &after),
        Some(Command::Report { run, to, .. }) => page(&run, to),
        Some(Command::Worker) => worker::serve(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_aside(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &RunArguments) -> Result<()> {
    let mut guard = None;
    let entries = match (&arguments.filter, &arguments.against) {
        (None, None) => {
            say(table::list(&catalog::entries()).trim_end());
            return Ok(());
        }
        (filter, Some(earlier)) => {
            let (read, entries) = Guard::read(earlier, filter.as_deref())?;
            guard = Some(read);
            entries
        }
        (Some(filter), None) => catalog::select(filter),
    };
    if entries.is_empty() {
        let filter = arguments.filter.as_deref().unwrap_or_default();
        bail!("no entry matches `{filter}`; `cargo xtask bench` lists them");
    }
    if arguments.dry_run {
        say(table::list(&entries).trim_end());
        return Ok(());
    }
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(usable, usize::from);
    if arguments.peers && arguments.python.is_none() {
        say_aside("peers: made the first time, which takes minutes");
    }
    let folder = arguments.target.join("bench");
    let backend = arguments.device.as_deref().map(gpu::backend).transpose()?;
    let peers_of = |entry: &Entry| match backend {
        Some(_) => gpu::peers(&entry.problem),
        None => strategy::peers(&entry.problem),
    };
    let hosts = entries.iter().flat_map(peers_of);
    let hosts: Vec<Host> = hosts.map(|peer| peer.host).filter(|_| arguments.peers).collect();
    let python = match hosts.iter().any(|host| matches!(host, Host::Python(_))) {
        true => match &arguments.python {
            Some(python) => Ok(python.clone()),
            None => peers::python(&folder.join("peers")),
        },
        false => Err("no peer of this run is a script".to_owned()),
    };
    let names: BTreeSet<_> = hosts.iter().filter_map(Host::package).collect();
    let packages = names.into_iter().map(|name| (name, peers::package(name, &folder))).collect();
    let programs = Programs {
        here: std::env::current_exe().context("the path of this program")?,
        python,
        packages,
        scripts: peers::scripts(),
        threads,
        is_on_gpu: backend.is_some(),
        slow_ours: arguments.slow_ours,
    };
    let mut machine = Machine::measure(threads);
    machine.gpu = backend.map(Gpu::measure).transpose()?;
    if !arguments.json {
        say(table::machine(&machine).trim_end());
    }
    let effort = Effort {
        samples: usize::from(arguments.samples.get()),
        sample: Duration::from_millis(arguments.sample_ms.into()),
        processes: usize::from(arguments.processes.get()),
    };
    let mut record = Record::new(machine, Vec::new());
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let saved = match &arguments.save_to {
        Some(folder) => Some(folder.clone()),
        None => arguments.save.then(|| record::new_run(&record, &runs)),
    };
    let strategies_of = |entry: &Entry| {
        let mut strategies = match backend {
            Some(backend) => gpu::ours(&entry.problem, backend),
            None => strategy::ours(&entry.problem),
        };
        let variants = arguments.variant.iter();
        strategies
            .extend(variants.map(|(id, program)| strategy::variant(&entry.problem, id, program)));
        if arguments.peers {
            strategies.extend(peers_of(entry));
        }
        if let Some(guard) = &guard {
            guard.keep_compared(entry, &mut strategies);
        }
        strategies
    };
    let compared: Vec<(Entry, Vec<Strategy>)> =
        entries.iter().map(|entry| (entry.clone(), strategies_of(entry))).collect();
    if let Some(guard) = &mut guard {
        guard.expect_machine(&record.machine)?;
        guard.expect_ratios(&compared)?;
    }
    for (entry, strategies) in &compared {
        let result = match &mut guard {
            Some(guard) => guard.measure(entry, strategies, &programs, effort)?,
            None => measure(entry, strategies, &programs, effort)?,
        };
        if !arguments.json {
            say(table::entry(&result, &record.machine).trim_end_matches('\n'));
        }
        record.entries.push(result);
        // A long run that is stopped keeps its results so far.
        if let Some(run) = &saved {
            record.save(run)?;
        }
    }
    if arguments.json {
        say(&serde_json::to_string_pretty(&record)?);
    } else {
        say(table::programs(&record.entries).trim_end());
    }
    if let Some(run) = &saved {
        say_aside(&format!("saved in {}", run.display()));
        say_aside(&format!("next     cargo xtask bench compare EARLIER {}", run.display()));
    } else if !arguments.json {
        say_aside("next     cargo xtask bench with the same arguments and --save");
    }
    if let Some(guard) = &guard {
        let table = guard.table();
        if arguments.json { say_aside(&table) } else { say(table.trim_end()) }
    }
    refuse_failures(&record, arguments)?;
    guard.map_or(Ok(()), |guard| guard.refuse_regressions())
}

/// Returns an error for wrong results and, with `--assert`, for slow choices of the dispatcher.
fn refuse_failures(record: &Record, arguments: &RunArguments) -> Result<()> {
    let ours = record.entries.iter().flat_map(|entry| {
        // What burn alone cannot do on a device is a line in the table, as with peers.
        let is_ours = |outcome: &&Outcome| !matches!(outcome.role, Role::Peer | Role::Baseline);
        let own = entry.outcomes.iter().filter(is_ours);
        own.filter_map(|outcome| Some((&entry.id, &outcome.strategy, outcome.failure.as_ref()?)))
    });
    let failed: Vec<String> =
        ours.map(|(entry, strategy, reason)| format!("{entry}: `{strategy}`: {reason}")).collect();
    if !failed.is_empty() {
        bail!("not everything of ours was timed:\n  {}", failed.join("\n  "));
    }
    if let Some(percent) = arguments.assert {
        let threads = record.machine.fingerprint.threads;
        let slow = table::slow_picks(&record.entries, threads, f64::from(percent) / 100.0);
        if !slow.is_empty() {
            bail!("the dispatcher's pick is not the best path:\n  {}", slow.join("\n  "));
        }
    }
    Ok(())
}

fn compare(before: &Path, after: &Path) -> Result<()> {
    let (before, after) = (Record::read(before)?, Record::read(after)?);
    let changes = record::compare(&before, &after)?;
    say(table::machine(&after.machine).trim_end());
    say(table::changes(&changes).trim_end());
    Ok(())
}

fn page(run: &Path, to: Option<PathBuf>) -> Result<()> {
    let record = Record::read(run)?;
    let to = to.unwrap_or_else(|| {
        if run.is_dir() { run.join("report.html") } else { run.with_extension("html") }
    });
    let page = report::page(&record)?;
    record::write_whole(&to, &page)?;
    say(&to.display().to_string());
    Ok(())
}

/// Prints a result; a closed pipe, such as of `head`, is not an error.
fn say(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

/// Prints a message that is not a result.
fn say_aside(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_has_to_be_timed_and_what_others_cannot_is_a_line() {
        let arguments = Arguments::parse_from(["updraft-bench", "matmul"]).run;
        let refused = |role| {
            let strategies = [("flex", Role::Dispatched, Some(1.0)), ("another", role, None)];
            refuse_failures(&synthetic::run("a CPU", &strategies), &arguments)
        };
        for role in [Role::Peer, Role::Baseline] {
            refused(role).expect("a line in the table");
        }
        for role in [Role::Dispatched, Role::Forced, Role::Variant] {
            let error = refused(role).expect_err("ours").to_string();
            assert!(error.contains("`another`"), "{error}");
        }
    }
}
