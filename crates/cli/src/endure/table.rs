//! The table of disturbances and results.

use serde_json::{Value, json};

use super::noise::Distance;

/// Disturbances and results of a task in one variant.
#[derive(Debug)]
pub(crate) struct Endured {
    pub(crate) task: &'static str,
    pub(crate) variant: &'static str,
    /// Processes killed.
    pub(crate) kills: u64,
    /// Processes killed while they wrote a checkpoint.
    pub(crate) in_saves: u64,
    /// Runs on a disk that became full.
    pub(crate) full: u64,
    /// Runs whose storage became read-only.
    pub(crate) read_only: u64,
    /// Runs that finished and were compared.
    pub(crate) ends: u64,
    /// The farthest test scores of runs that ended on fewer ranks; not of runs whose bits are
    /// compared.
    pub(crate) farthest: Option<Distance>,
    /// The first error or difference.
    pub(crate) fault: Option<String>,
}

const HEAD: [&str; 8] = ["task", "variant", "kills", "saves", "full", "r/o", "ends", "bits"];

/// The last column of runs that are compared by their test scores: the farthest one.
const NOISE: &str = "noise";

impl Endured {
    pub(super) fn new(task: &'static str, variant: &'static str, is_by_scores: bool) -> Self {
        let (kills, in_saves, full, read_only, ends) = (0, 0, 0, 0, 0);
        let farthest = is_by_scores.then(Distance::default);
        Self { task, variant, kills, in_saves, full, read_only, ends, farthest, fault: None }
    }

    /// Number of disturbances of all kinds.
    pub(super) fn disturbed(&self) -> u64 {
        self.kills + self.full + self.read_only
    }

    fn numbers(&self) -> [u64; 5] {
        [self.kills, self.in_saves, self.full, self.read_only, self.ends]
    }

    pub(crate) fn json(&self) -> Value {
        let [kills, in_saves, full, read_only, ends] = self.numbers();
        json!({
            "task": self.task, "variant": self.variant, "kills": kills, "kills_in_saves": in_saves,
            "full_disks": full, "read_only": read_only, "ends": ends,
            "farthest_loss": self.farthest.map(|farthest| farthest.loss),
            "farthest_accuracy": self.farthest.and_then(|farthest| farthest.accuracy),
            "fault": self.fault,
        })
    }

    /// A table of all rows and their sums, at most eighty columns wide.
    pub(crate) fn table(rows: &[Self]) -> String {
        let word = |is_same: bool, farthest: Option<Distance>| match (is_same, farthest) {
            (false, _) => "OTHER".to_owned(),
            (true, None) => "same".to_owned(),
            (true, Some(farthest)) => format!("{:.2}", farthest.most()),
        };
        let cells = |row: &Self| {
            let mut cells = vec![row.task.to_owned(), row.variant.to_owned()];
            cells.extend(row.numbers().map(|number| number.to_string()));
            cells.push(word(row.fault.is_none(), row.farthest));
            cells
        };
        let mut sums = vec!["all".to_owned(), String::new()];
        let sum = |at: usize| rows.iter().map(|row| row.numbers()[at]).sum::<u64>().to_string();
        sums.extend((0..5).map(sum));
        let farthest = rows.iter().filter_map(|row| row.farthest).reduce(Distance::farthest);
        sums.push(word(rows.iter().all(|row| row.fault.is_none()), farthest));
        let mut head = HEAD.map(str::to_owned).to_vec();
        if farthest.is_some() {
            head[HEAD.len() - 1] = NOISE.to_owned();
        }
        let lines: Vec<Vec<String>> =
            [head].into_iter().chain(rows.iter().map(cells)).chain([sums]).collect();
        let width =
            |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let text = |line: &Vec<String>| {
            let cells = line.iter().enumerate().map(|(at, cell)| match at {
                0 | 1 => format!("{cell:<0$}", width(at)),
                _ => format!("{cell:>0$}", width(at)),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        lines.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_sums_names_a_fault_and_fits_eighty_columns() {
        let row = |task, fault: Option<&str>| Endured {
            kills: 1234,
            in_saves: 412,
            full: 100,
            read_only: 99,
            ends: 101,
            fault: fault.map(str::to_owned),
            ..Endured::new(task, "bf16 EMA", false)
        };
        let rows = [row("a-task-with-a-long-name", None), row("short", Some("`state` differs"))];
        let table = Endured::table(&rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{table}");
        assert!(lines[1].ends_with("same") && lines[2].ends_with("OTHER"), "{table}");
        assert!(lines[3].starts_with("all") && lines[3].contains("2468"), "{table}");

        let by_scores = |loss| Endured {
            farthest: Some(Distance { loss, accuracy: Some(0.125) }),
            ..Endured::new("short", "f32 EMA", true)
        };
        let table = Endured::table(&[by_scores(0.25), by_scores(0.5)]);
        let last: Vec<_> =
            table.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(last, ["noise", "0.25", "0.50", "0.50"], "{table}");
    }
}
