//! The runs of fuzz targets so far: executions, processor time and faults, and their table.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use crate::root;

/// Clock ticks a second in `/proc`, on every Linux.
const TICKS: f64 = 100.0;

/// The result of one run of a target.
pub(crate) struct Outcome {
    pub(crate) executions: u64,
    /// Time of the processors, of all threads.
    pub(crate) seconds: f64,
    pub(crate) inputs: usize,
    pub(crate) is_clean: bool,
}

/// Processor time of all processes that this one started and waited for, in seconds.
pub(crate) fn processor_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    waited_s(&stat)
}

/// The fields `cutime` and `cstime` of proc(5), after the name in parentheses.
fn waited_s(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Executions from the output of libFuzzer; for a run that ended with a fault, those of its last
/// status line.
pub(crate) fn counted(log: &str) -> u64 {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let stated = log
        .lines()
        .find_map(|line| number(line.strip_prefix("stat::number_of_executed_units:")?))
        .or_else(|| {
            let mut lines = log.lines().rev();
            lines.find_map(|line| number(line.strip_prefix('#')?.split(['\t', ':']).next()?))
        });
    stated.unwrap_or(0)
}

fn history() -> PathBuf {
    root().join("target/fuzz/history.tsv")
}

/// Appends a run to the history.
pub(crate) fn record(name: &str, outcome: &Outcome) -> Result<(), String> {
    let Outcome { executions, seconds, is_clean, .. } = outcome;
    let line = format!("{name}\t{executions}\t{seconds:.1}\t{}\n", u8::from(!is_clean));
    let file = OpenOptions::new().create(true).append(true).open(history());
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| format!("`{}`: {error}", history().display()))
}

pub(crate) fn recorded() -> String {
    fs::read_to_string(history()).unwrap_or_default()
}

/// Executions, seconds and faults of each target, over all runs.
pub(crate) fn totals(history: &str) -> BTreeMap<&str, [f64; 3]> {
    let mut totals: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
    for line in history.lines() {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default();
        let sums = totals.entry(name).or_default();
        for (sum, field) in sums.iter_mut().zip(fields) {
            *sum += field.parse::<f64>().unwrap_or(0.0);
        }
    }
    totals
}

/// The totals as a table of Markdown.
pub(crate) fn table(totals: &BTreeMap<&str, [f64; 3]>) -> String {
    let mut lines = vec![
        "| Target | Executions | Processor time, s | Faults |".to_owned(),
        "|---|---:|---:|---:|".to_owned(),
    ];
    let mut all = [0.0; 3];
    for (name, sums) in totals {
        let [executions, seconds, faults] = *sums;
        lines.push(format!("| {name} | {executions} | {seconds:.0} | {faults} |"));
        all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
    }
    let [executions, seconds, faults] = all;
    lines.push(format!("| all | {executions} | {seconds:.0} | {faults} |"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_counted_from_the_output_also_after_a_fault() {
        let whole = "#2\tINITED cov: 3\n#99\tDONE cov: 3\nDone 99 runs in 11 second(s)\n\
                     stat::number_of_executed_units: 99\n";
        assert_eq!(counted(whole), 99);
        assert_eq!(counted("#2\tINITED cov: 3\n#57\tNEW cov: 4\nthread panicked\n"), 57);
        assert_eq!(counted(""), 0);
    }

    #[test]
    fn runs_of_a_target_are_summed() {
        let history = "idx\t5\t1.5\t0\ncsv\t7\t2.0\t1\nidx\t6\t3.0\t0\n";
        let totals = totals(history);
        assert_eq!((totals["idx"], totals["csv"]), ([11.0, 4.5, 0.0], [7.0, 2.0, 1.0]));
        let table = table(&totals);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(lines, ["| csv | 7 | 2 | 1 |", "| idx | 11 | 4 | 0 |", "| all | 18 | 6 | 1 |"]);
    }

    #[test]
    fn the_processor_time_is_that_of_processes_that_ended() {
        let fields: Vec<String> = (3..=20).map(|number| number.to_string()).collect();
        let stat = format!("7 (a) b) {}", fields.join(" "));
        assert_eq!(waited_s(&stat), (16.0 + 17.0) / TICKS);
        assert_eq!(waited_s(""), 0.0);
    }
}
