//! The tables that a run prints, at most 80 columns wide.

use std::fmt::Write;

use updraft_kan::roofline::LeastTime;

use crate::catalog::Entry;
use crate::gpu::{Card, Gpu};
use crate::machine::Machine;
use crate::measure::{Measured, Outcome};
use crate::problem::{Arithmetic, Problem, Work};
use crate::record::Change;
use crate::roofline::Modelled;
use crate::strategy::Role;

const GIB: f64 = (1_u64 << 30) as f64;

/// The machine and the build, above everything measured on them.
pub(crate) fn machine(machine: &Machine) -> String {
    let f = &machine.fingerprint;
    let b = &machine.build;
    let memory = f.memory_bytes.map_or_else(
        || "unknown memory".to_owned(),
        |bytes| format!("{:.1} GiB", bytes as f64 / GIB),
    );
    let rustc = b.rustc.as_deref().unwrap_or("rustc unknown");
    let rustc = rustc.split(" (").next().unwrap_or(rustc);
    let commit = b.commit.as_deref().unwrap_or("unknown");
    format!(
        "machine  {}\n         {} of {} logical CPUs, {memory}, {}\n         {}\n\
         build    updraft {} at {commit}, burn {}, {rustc}\n         {}\n\
         peak     {:.0} GFLOP/s f32, {:.0} GOP/s int8, copy {:.0} GB/s, with {} thread{}\n{}",
        f.cpu,
        f.usable_cpus,
        f.logical_cpus,
        f.os,
        f.isa.join(" "),
        b.updraft,
        b.burn,
        b.features.join(" "),
        machine.peak.f32_gflops,
        machine.peak.int8_gops,
        machine.peak.copy_gbytes_per_s,
        f.threads,
        if f.threads == 1 { "" } else { "s" },
        machine.gpu.as_ref().map_or_else(String::new, gpu),
    )
}

/// The card and its rates.
fn gpu(gpu: &Gpu) -> String {
    let Card { backend, name, driver, target, memory_bytes } = &gpu.card;
    let memory =
        memory_bytes.map_or_else(String::new, |bytes| format!(", {:.0} GiB", bytes as f64 / GIB));
    let driver = driver.as_ref().map_or_else(String::new, |driver| format!(", driver {driver}"));
    let target = target.as_ref().map_or_else(String::new, |target| format!(", {target}"));
    let products = gpu.matmul_gflops.iter();
    let products: Vec<_> =
        products.map(|(dtype, rate)| format!("{dtype} {:.1}", rate / 1e3)).collect();
    format!(
        "gpu      {backend}: {name}{memory}{driver}{target}\n         \
         burn's products in TFLOP/s: {}; copy {:.0} GB/s\n",
        products.join(", "),
        gpu.copy_gbytes_per_s,
    )
}

/// The catalogue: each id with the line that explains it.
pub(crate) fn list(entries: &[Entry]) -> String {
    let mut text = String::new();
    for Entry { id, about, .. } in entries {
        let _ = writeln!(text, "{id}\n    {about}");
    }
    text
}

/// One entry's strategies, the fastest of them at ×1.00.
pub(crate) fn entry(measured: &Measured, on: &Machine) -> String {
    let threads = on.fingerprint.threads;
    let clock = if threads == 1 { "processor time" } else { "wall clock" };
    let work = measured.work;
    let mut text = format!(
        "\n{}\n  {}\n  {clock} a repetition{}\n",
        measured.id,
        measured.about,
        amounts(&work)
    );
    for choice in &measured.choices {
        let _ = writeln!(text, "  {choice}");
    }
    let arithmetic = measured.problem.task().arithmetic();
    let (most, rate) = match arithmetic {
        Arithmetic::F32 => {
            let gpu = on.gpu.as_ref().map(Gpu::f32_gflops);
            (gpu.unwrap_or(on.peak.f32_gflops), "GFLOP/s  % peak")
        }
        Arithmetic::Int8 if on.gpu.is_some() => (f64::INFINITY, "  GOP/s        "),
        Arithmetic::Int8 => (on.peak.int8_gops, "  GOP/s  % peak"),
    };
    let rate = match (work.operations, work.bytes, work.samples) {
        (Some(_), ..) => rate,
        (None, Some(_), _) => "   GB/s  % copy",
        (None, None, _) => "sample/s       ",
    };
    let card = on.gpu.as_ref().filter(|_| matches!(measured.problem, Problem::KanLayer(_)));
    // The column for the share of a card's limit takes its width from others.
    let [of_spread, of_cpu, of_limit, of_ratio]: [usize; 4] =
        if card.is_some() { [6, 8, 8, 7] } else { [8, 10, 0, 8] };
    let limit = if card.is_some() { "% limit" } else { "" };
    let _ = writeln!(
        text,
        "  {:<22}{:>10}{:>of_spread$}{:>of_cpu$}  {rate}{limit:>of_limit$}{:>of_ratio$}",
        "strategy", "median ms", "± %", "CPU ms", "× best"
    );
    let modelled = |outcome: &Outcome| {
        card.and_then(|card| Modelled::new(&measured.problem, &outcome.strategy, card))
    };
    let summary =
        |outcome: &Outcome| outcome.timing.as_ref().and_then(|timing| timing.summary(threads));
    let medians = measured.outcomes.iter().filter_map(summary).map(|summary| summary.median);
    let best = medians.fold(f64::INFINITY, f64::min);
    for outcome in &measured.outcomes {
        let name = &outcome.strategy;
        let (Some(timing), Some(summary)) = (&outcome.timing, summary(outcome)) else {
            let reason = outcome.failure.as_deref().unwrap_or("not timed");
            let reason = reason.lines().next().unwrap_or_default();
            let _ = writeln!(text, "  {name:<22}  {}", cut(reason, 54));
            continue;
        };
        let seconds = summary.median * 1e-9;
        let (speed, share) = match (work.operations, work.bytes, work.samples) {
            (Some(operations), ..) => {
                let speed = operations as f64 / seconds / 1e9;
                // The int8 peak of a card is not measured.
                (format!("{speed:.1}"), most.is_finite().then_some(speed / most))
            }
            (None, Some(bytes), _) => {
                let speed = bytes as f64 / seconds / 1e9;
                let gpu = on.gpu.as_ref().map(|gpu| gpu.copy_gbytes_per_s);
                let copy = gpu.unwrap_or(on.peak.copy_gbytes_per_s);
                (format!("{speed:.2}"), Some(speed / copy))
            }
            (None, None, samples) => {
                let speed = samples.unwrap_or(1) as f64 / seconds;
                let many = speed >= 1e6;
                (if many { metric(speed as u64, "") } else { format!("{speed:.1}") }, None)
            }
        };
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let share = share.map_or_else(String::new, percent);
        let limit = modelled(outcome)
            .map_or_else(String::new, |modelled| percent(modelled.least().seconds / seconds));
        // A long name takes columns of the median.
        let of_median = 31_usize.saturating_sub(name.chars().count());
        let cpu = crate::statistics::Summary::of(&timing.cpu_ns).map_or(0.0, |cpu| cpu.median);
        let _ = writeln!(
            text,
            "  {name} {:>of_median$.3}{:>of_spread$.1}{:>of_cpu$.3}  {speed:>7}{share:>8}\
             {limit:>of_limit$}{:>of_ratio$.2}",
            summary.median * 1e-6,
            100.0 * summary.spread,
            cpu * 1e-6,
            summary.median / best,
        );
    }
    if on.gpu.is_some() {
        text.extend(beside_plain(measured, threads));
    }
    for outcome in &measured.outcomes {
        if let (Some(timing), Some(proof)) = (&outcome.timing, outcome.proof) {
            let peak = timing.peak_bytes.map_or_else(String::new, |bytes| {
                format!(", {:.0} MiB", bytes as f64 / f64::from(1 << 20))
            });
            let _ = writeln!(
                text,
                "    {}: error {:.0e} of {:.0e} allowed, first {:.1} ms{peak}",
                outcome.strategy,
                proof.error,
                proof.tolerance,
                timing.first_ns * 1e-6,
            );
            if let Some(modelled) = modelled(outcome) {
                let LeastTime { seconds, limit } = modelled.least();
                let ms = seconds * 1e3;
                let _ = writeln!(text, "      {ms:.3} ms at the card's rates, mostly {limit}");
                for line in modelled.occupancy() {
                    let _ = writeln!(text, "      {line}");
                }
            }
            let taken = timing.taken_bytes().filter(|_| measured.problem.task().reports_memory());
            if let Some(bytes) = taken {
                let mib = bytes as f64 / f64::from(1 << 20);
                let _ = writeln!(text, "      {mib:.0} MiB more than before the problem was ready");
            }
        }
    }
    text
}

/// The time of burn's operations over that of our kernels, if both were timed.
fn beside_plain(measured: &Measured, threads: usize) -> Option<String> {
    let timed = |role: Role| {
        let outcome = measured.outcomes.iter().find(|outcome| outcome.role == role)?;
        Some((&outcome.strategy, outcome.timing.as_ref()?.summary(threads)?.median))
    };
    let ((ours, of_ours), (plain, of_plain)) = (timed(Role::Dispatched)?, timed(Role::Baseline)?);
    let ratio = of_plain / of_ours;
    Some(format!("  plain (`{plain}`) takes {ratio:.2} × what `{ours}` takes\n"))
}

/// The work of a repetition, by the definition of its problem.
fn amounts(work: &Work) -> String {
    let operations = work.operations.map(|count| format!("{} operations", metric(count, "")));
    let bytes = work.bytes.map(|count| metric(count, "B"));
    let samples = work.samples.map(|count| format!("{count} samples"));
    [operations, bytes, samples].into_iter().flatten().map(|amount| format!(", {amount}")).collect()
}

/// A count with three digits and a metric prefix.
fn metric(count: u64, unit: &str) -> String {
    let (mut value, mut prefix) = (count as f64, "");
    for next in ["k", "M", "G", "T"] {
        if value < 1000.0 {
            break;
        }
        (value, prefix) = (value / 1000.0, next);
    }
    let digits =
        if prefix.is_empty() || value >= 100.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.digits$} {prefix}{unit}").trim_end().to_owned()
}

/// The programs behind the strategies, each once.
pub(crate) fn programs(entries: &[Measured]) -> String {
    let mut lines = Vec::new();
    for outcome in entries.iter().flat_map(|entry| &entry.outcomes) {
        if let Some(about) = &outcome.about {
            let line = format!("  {:<22}  {about}", outcome.strategy);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if lines.is_empty() { String::new() } else { format!("\nstrategies\n{}\n", lines.join("\n")) }
}

/// Changes between two runs; those within the spread are marked.
pub(crate) fn changes(changes: &[Change]) -> String {
    let mut text = format!("  {:<48}{:>10}{:>10}{:>8}\n", "", "before ms", "after ms", "ratio");
    for change in changes {
        let ratio = change.after / change.before;
        let quiet = if (ratio - 1.0).abs() <= change.spread { " ~" } else { "" };
        let mut name = format!("{} {}", change.entry, change.strategy);
        if name.chars().count() > 48 {
            let _ = writeln!(text, "  {}", change.entry);
            name = format!("  {}", change.strategy);
        }
        let _ = writeln!(
            text,
            "  {name:<48}{:>10.3}{:>10.3}{ratio:>8.2}{quiet}",
            change.before * 1e-6,
            change.after * 1e-6
        );
    }
    text.push_str("\n  ~ within the spread of the samples\n");
    text
}

/// Entries in which the dispatcher's choice is slower than our best path, by more than a ratio.
pub(crate) fn slow_picks(entries: &[Measured], threads: usize, allowed: f64) -> Vec<String> {
    let mut slow = Vec::new();
    for entry in entries {
        let median = |role: &[Role]| {
            let outcomes = entry.outcomes.iter().filter(|outcome| role.contains(&outcome.role));
            let timed = outcomes.filter_map(|outcome| {
                let summary = outcome.timing.as_ref()?.summary(threads)?;
                Some((summary.median, outcome.strategy.clone()))
            });
            timed.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let Some((best, name)) = median(&[Role::Forced, Role::Dispatched]) else { continue };
        match median(&[Role::Dispatched]) {
            Some((picked, pick)) if picked > best * (1.0 + allowed) => slow.push(format!(
                "{}: `{pick}` takes {:.2} × what `{name}` takes",
                entry.id,
                picked / best
            )),
            Some(_) => {}
            None => slow.push(format!("{}: what the dispatcher picks was not timed", entry.id)),
        }
    }
    slow
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::kan_layer::KanLayer;
    use crate::problem::{Pass, Proof, Task};
    use crate::synthetic;
    use crate::{catalog, strategy};

    fn assert_narrow(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn the_catalogue_fits_eighty_columns() {
        let entries = catalog::entries();
        let list = list(&entries);
        assert_eq!(list.lines().count(), 2 * entries.len());
        assert_narrow(&list);
    }

    #[test]
    fn tables_fit_eighty_columns_and_name_their_units() {
        let strategies = [
            ("pytorch-channels-last", Role::Peer, Some(1.5e6)),
            ("updraft", Role::Dispatched, Some(3e6)),
            ("candle", Role::Peer, None),
        ];
        let record = synthetic::run("a CPU", &strategies);
        assert_narrow(&machine(&record.machine));
        let mut measured = record.entries[0].clone();
        for Entry { id, problem, .. } in catalog::entries() {
            (measured.work, measured.id, measured.problem) = (problem.task().work(), id, problem);
            let table = entry(&measured, &record.machine);
            assert_narrow(&table);
            for unit in ["median ms", "CPU ms", "wall clock a repetition"] {
                assert!(table.contains(unit), "{table}");
            }
            let rates = ["GFLOP/s", "GOP/s", "GB/s", "sample/s"];
            assert!(rates.iter().any(|rate| table.contains(rate)), "{table}");
            assert!(table.contains("1.500"), "{table}");
            assert!(table.lines().any(|line| line.contains("updraft ") && line.ends_with("2.00")));
            assert!(table.contains("it <failed>"), "{table}");
        }
    }

    #[test]
    fn kan_layers_on_a_card_show_their_share_of_its_limit() {
        let strategies = [
            ("updraft-cuda", Role::Dispatched, Some(1e6)),
            ("updraft-cuda-expanded-bf16", Role::Variant, Some(2e6)),
            ("cuda", Role::Baseline, Some(4e6)),
        ];
        let mut record = synthetic::run("a CPU", &strategies);
        let layer =
            KanLayer { batch: 8192, inputs: 512, outputs: 512, intervals: 5, pass: Pass::Forward };
        let measured = &mut record.entries[0];
        (measured.id, measured.work) = (layer.id(), layer.work());
        measured.problem = Problem::KanLayer(layer);
        for outcome in &mut measured.outcomes {
            outcome.proof = Some(Proof { error: 0.0, tolerance: 1e-5 });
        }
        let table = entry(&record.entries[0], &record.machine);
        assert!(!table.contains("% limit") && !table.contains("the card's rates"), "{table}");

        let card = Card {
            backend: "cuda".to_owned(),
            name: "a card".to_owned(),
            driver: None,
            target: Some("ptx_sm90".to_owned()),
            memory_bytes: None,
        };
        // Products of bf16 were not measured.
        let matmul_gflops = vec![("f32".to_owned(), 50_000.0)];
        record.machine.gpu = Some(Gpu { card, matmul_gflops, copy_gbytes_per_s: 1000.0 });
        let table = entry(&record.entries[0], &record.machine);
        assert_narrow(&table);
        let row = |name: &str| {
            let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            rows.find(|row| row.first() == Some(&name)).expect("a row")
        };
        // 39.4 · 10⁹ operations of the dense form take 0.789 ms.
        assert_eq!(
            row("updraft-cuda"),
            ["updraft-cuda", "1.000", "0.0", "0.000", "21474.8", "42.9", "78.9", "1.00"]
        );
        assert_eq!(row("cuda"), ["cuda", "4.000", "0.0", "0.000", "5368.7", "10.7", "4.00"]);
        assert_eq!(row("updraft-cuda-expanded-bf16").len(), 7);
        assert!(table.contains("plain (`cuda`) takes 4.00 × what `updraft-cuda` takes"), "{table}");
        assert_eq!(table.matches("0.789 ms at the card's rates, mostly arithmetic").count(), 1);
        // 4 × 64 tiles; cubes of 256 threads and 18 KiB.
        let line = "dense_forward: 256 cubes, 8 at once by threads";
        assert_eq!(table.matches(line).count(), 1, "{table}");
        let card = &mut record.machine.gpu.as_mut().expect("a card").card;
        card.target = None;
        let table = entry(&record.entries[0], &record.machine);
        assert_narrow(&table);
        let line = "dense_forward: 256 cubes, 256 threads, 18432 bytes each";
        assert_eq!(table.matches(line).count(), 1, "{table}");
        assert_eq!(table.matches("% limit").count(), 1);
    }

    #[test]
    fn changes_fit_eighty_columns_whatever_their_names() {
        let all = catalog::entries().into_iter().flat_map(|entry| {
            let ours = strategy::ours(&entry.problem).into_iter();
            let all = ours.chain(strategy::peers(&entry.problem));
            all.map(move |strategy| Change {
                entry: entry.id.clone(),
                strategy: strategy.id,
                before: 2e6,
                after: 1e6,
                spread: 0.6,
            })
        });
        let text = changes(&all.collect::<Vec<_>>());
        assert_narrow(&text);
        assert!(text.contains("0.50 ~"), "{text}");
    }

    #[test]
    fn a_pick_that_is_slower_than_a_path_is_reported_above_the_allowed_ratio() {
        let run = |picked| {
            let strategies = [
                ("updraft", Role::Dispatched, picked),
                ("updraft-avx2", Role::Forced, Some(10.0)),
                ("pytorch", Role::Peer, Some(1.0)),
                ("flex", Role::Baseline, Some(1.0)),
            ];
            slow_picks(&synthetic::run("a CPU", &strategies).entries, 2, 0.1)
        };
        assert!(run(Some(11.0)).is_empty());
        let slow = run(Some(12.0));
        assert_eq!(slow.len(), 1);
        assert!(slow[0].contains("`updraft` takes 1.20 × what `updraft-avx2` takes"), "{slow:?}");
        assert!(run(None)[0].contains("was not timed"));
    }
}
