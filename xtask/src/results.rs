//! `results`: the table of speeds in the README, checked against the saved runs that it cites, and
//! the chart that is drawn from it.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use serde_json::Value;

use crate::{complain, print, refuse, root};

/// The document with the table.
const PAGE: &str = "README.md";

/// The chart, one bar a row.
const CHART: &str = "docs/speedups.svg";

/// A row of the table: what was timed, and where.
#[derive(Debug, PartialEq)]
struct Row {
    work: String,
    /// As printed: milliseconds of Updraft, milliseconds of the peer, and their ratio.
    ours: String,
    peer: String,
    ratio: String,
    /// The peer's strategy and the entry of the run.
    strategy: String,
    entry: String,
    run: String,
}

/// Checks the table; writes the chart with `--write`, and compares it otherwise.
pub(crate) fn run(arguments: &[String], dry_run: bool) -> ExitCode {
    let write = arguments.iter().any(|argument| argument == "--write");
    if arguments.len() > usize::from(write) + usize::from(dry_run) {
        return refuse("`cargo xtask results` takes no arguments but --write and --dry-run");
    }
    if dry_run {
        print("> compare the README's table of speeds with the runs that it cites");
        return ExitCode::SUCCESS;
    }
    match faults(write) {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn faults(write: bool) -> Result<Vec<String>, String> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let rows: Vec<Row> = read(PAGE)?.lines().filter_map(Row::parse).collect();
    if rows.is_empty() {
        return Err(format!("{PAGE} has no row that cites a run"));
    }
    let mut faults = Vec::new();
    for row in &rows {
        let text = read(&row.run)?;
        let run: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", row.run))?;
        faults.extend(row.fault(&run).map(|fault| format!("{PAGE}: {}: {fault}", row.work)));
    }
    let chart = chart(&rows);
    if write {
        fs::write(root().join(CHART), chart).map_err(|error| format!("{CHART}: {error}"))?;
    } else if read(CHART)? != chart {
        faults.push(format!("{CHART} is not of this table; run `cargo xtask results --write`"));
    }
    Ok(faults)
}

impl Row {
    /// Reads ``| work | 1.2 ms | 3.4 ms `strategy` | 2.8 | [`entry`](run.json) |``.
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [work, ours, peer, ratio, source] = cells[..] else { return None };
        let (entry, run) = source.strip_prefix("[`")?.strip_suffix(")")?.split_once("`](")?;
        let (peer, strategy) = peer.strip_suffix('`')?.split_once(" ms `")?;
        Some(Self {
            work: work.to_owned(),
            ours: ours.strip_suffix(" ms")?.to_owned(),
            peer: peer.to_owned(),
            ratio: ratio.to_owned(),
            strategy: strategy.to_owned(),
            entry: entry.to_owned(),
            run: run.to_owned(),
        })
    }

    /// The differences from the run.
    fn fault(&self, run: &Value) -> Option<String> {
        let entries = run["entries"].as_array()?;
        let Some(entry) = entries.iter().find(|entry| entry["id"] == self.entry.as_str()) else {
            return Some(format!("the run has no entry `{}`", self.entry));
        };
        // One thread is timed by the processor clock, several by wall-clock time.
        let is_single = run["machine"]["fingerprint"]["threads"] == 1;
        let clock = if is_single { "cpu_ns" } else { "wall_ns" };
        let outcomes = entry["outcomes"].as_array()?;
        let median = |key: &str, value: &str| {
            let outcome = outcomes.iter().find(|outcome| outcome[key] == value)?;
            median_ms(&outcome["timing"][clock])
        };
        let (Some(ours), Some(peer)) =
            (median("role", "dispatched"), median("strategy", &self.strategy))
        else {
            return Some(format!("`{}` lacks a timing", self.entry));
        };
        [(&self.ours, ours), (&self.peer, peer), (&self.ratio, peer / ours)]
            .into_iter()
            .map(|(printed, found)| (printed, like(printed, found)))
            .find(|(printed, found)| *printed != found)
            .map(|(printed, found)| format!("{printed} is {found} in {}", self.run))
    }
}

/// The median of times in nanoseconds, in milliseconds; `None` without one.
pub(crate) fn median_ms(samples: &Value) -> Option<f64> {
    let mut samples: Vec<f64> = samples.as_array()?.iter().filter_map(Value::as_f64).collect();
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let median = match samples.len() {
        0 => return None,
        length if length % 2 == 0 => f64::midpoint(samples[middle - 1], samples[middle]),
        _ => samples[middle],
    };
    Some(median / 1e6)
}

/// A number with as many decimals as another was printed with.
fn like(printed: &str, number: f64) -> String {
    let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{number:.decimals$}")
}

/// One bar per row, as long as its ratio; a line marks the peer's speed.
fn chart(rows: &[Row]) -> String {
    const BAR: f64 = 34.0;
    const LEFT: f64 = 350.0;
    const WIDTH: f64 = 420.0;
    let ratio = |row: &Row| row.ratio.parse::<f64>().unwrap_or_default();
    let longest = rows.iter().map(ratio).fold(1.0, f64::max);
    let height = BAR.mul_add(count(rows.len()), 40.0);
    let full = LEFT + WIDTH + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n\
         <title>Speed of Updraft relative to its peer</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (index, row) in rows.iter().enumerate() {
        let top = BAR.mul_add(count(index), 8.0);
        let middle = top + 17.0;
        let length = WIDTH * ratio(row) / longest;
        let work = escape(&row.work);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\" fill=\"#1f2328\">{work}</text>\n\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"24\" rx=\"3\" \
             fill=\"#2f6fb3\"/>\n\
             <text x=\"{:.1}\" y=\"{middle}\" fill=\"#1f2328\">{}×</text>",
            LEFT - 10.0,
            LEFT + length + 6.0,
            row.ratio,
        );
    }
    let one = LEFT + WIDTH / longest;
    let bottom = height - 28.0;
    let _ = writeln!(
        svg,
        "<line x1=\"{one:.1}\" y1=\"0\" x2=\"{one:.1}\" y2=\"{bottom}\" stroke=\"#d1242f\" \
         stroke-dasharray=\"4 3\"/>\n\
         <text x=\"{one:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#d1242f\">peer = 1×</text>\n\
         </svg>",
        height - 10.0,
    );
    svg
}

fn count(rows: usize) -> f64 {
    f64::from(u16::try_from(rows).unwrap_or(u16::MAX))
}

/// A text in a page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LINE: &str = "| a step | 2.0 ms | 3.0 ms `pytorch` | 1.50 | [`train/a`](runs/run.json) |";

    fn a_run(ours: f64) -> Value {
        let timing = |ns: f64| json!({ "cpu_ns": [1.0, ns, 9e9], "wall_ns": [0.0] });
        json!({
            "machine": { "fingerprint": { "threads": 1 } },
            "entries": [{ "id": "train/a", "outcomes": [
                { "strategy": "updraft", "role": "dispatched", "timing": timing(ours) },
                { "strategy": "pytorch", "role": "peer", "timing": timing(3e6) },
            ] }],
        })
    }

    #[test]
    fn a_row_is_what_its_run_prints() {
        let row = Row::parse(LINE).unwrap();
        assert_eq!(row.fault(&a_run(2e6)), None);
        let fault = row.fault(&a_run(1e6)).unwrap();
        assert_eq!(fault, "2.0 is 1.0 in runs/run.json");
        assert_eq!(Row::parse("| a | b | c | d | e |"), None);
    }

    #[test]
    fn a_missing_entry_and_a_missing_strategy_are_faults() {
        let row = Row::parse(&LINE.replace("train/a", "train/b")).unwrap();
        assert!(row.fault(&a_run(2e6)).unwrap().contains("no entry `train/b`"));
        let row = Row::parse(&LINE.replace("pytorch", "jax")).unwrap();
        assert!(row.fault(&a_run(2e6)).unwrap().contains("lacks a timing"));
    }

    #[test]
    fn the_table_and_the_chart_agree_with_the_runs() {
        assert_eq!(faults(false), Ok(Vec::new()));
    }
}
