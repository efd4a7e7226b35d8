//! An inventory as a table of at most 80 columns.

use crate::facts::{DtypeFacts, Facts, GraphCapture};
use crate::measure::{Measured, Spread};
use crate::probe::{Inventory, InventoryEntry, State};

/// The largest width of a line.
const COLUMNS: usize = 80;

/// Widths of the first two columns, with gaps: the longest id is `cubecl-cpu`.
const ID_WIDTH: usize = 12;
const STATE_WIDTH: usize = 14;

impl Inventory {
    /// The inventory as lines of text: id, whether it is usable, and its name or the reason.
    ///
    /// Facts are below a usable device. A card of several devices has one row, which names them
    /// all.
    #[must_use]
    pub fn table(&self) -> String {
        let mut lines = vec![line("device", "usable", "name or reason")];
        for entry in &self.entries {
            let card = self.cards.iter().find(|card| card.ids.contains(&entry.id));
            if card.is_some_and(|card| card.ids[0] != entry.id) {
                continue;
            }
            lines.push(head(entry));
            if let Some(card) = card.filter(|card| card.ids.len() > 1) {
                let others: Vec<_> = card.ids[1..].iter().map(ToString::to_string).collect();
                lines.push(detail("also", &others.join(", ")));
            }
            if let Some(facts) = &entry.facts {
                lines.extend(facts_lines(facts));
            }
            if let Some(measured) = &entry.measured {
                lines.extend(measured_lines(measured));
            }
        }
        lines.join("\n")
    }
}

fn head(entry: &InventoryEntry) -> String {
    let (usable, note) = match &entry.state {
        State::Usable => {
            let name = entry.name.as_deref().unwrap_or("unnamed");
            let software = if entry.is_software { " (software)" } else { "" };
            ("yes", format!("{name}{software}"))
        }
        State::NotCompiled { feature } => {
            ("no", format!("not compiled in; cargo feature `{feature}`"))
        }
        State::Absent { reason } => ("no", reason.clone()),
    };
    line(&entry.id.to_string(), usable, &note)
}

fn facts_lines(facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    let driver: Vec<_> = [&facts.driver, &facts.target].into_iter().flatten().cloned().collect();
    if !driver.is_empty() {
        lines.push(detail("driver", &driver.join(", ")));
    }
    let memory = match (facts.memory_free_bytes, facts.memory_total_bytes) {
        (Some(free), Some(total)) => {
            format!("{} of {} free", gibibytes(free), gibibytes(total))
        }
        (None, Some(total)) => gibibytes(total),
        _ => "not reported by this backend".to_owned(),
    };
    lines.push(detail("memory", &memory));
    let named = |keep: fn(&DtypeFacts) -> bool| -> String {
        let names: Vec<_> =
            facts.dtypes.iter().filter(|facts| keep(facts)).map(|facts| &*facts.dtype).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    lines.push(detail("stores", &named(|facts| facts.stored)));
    lines.push(detail("computes", &named(|facts| facts.computed)));
    lines.push(detail("tensor cores", &named(|facts| facts.tensor_cores)));
    let graphs = match facts.graph_capture {
        GraphCapture::Hardware => "by the hardware: replayed as one launch",
        GraphCapture::Software => "by the runtime: recorded launches are repeated",
        GraphCapture::Replayed => "none: operations are launched one by one",
    };
    lines.push(detail("graph capture", graphs));
    lines
}

fn measured_lines(measured: &Measured) -> Vec<String> {
    let spread =
        |rate: &Spread| format!("{:.1} ({:.1} to {:.1})", rate.median, rate.low, rate.high);
    let product = |rate: &crate::measure::MatmulRate| {
        let note = format!("{} GFLOP/s at {}³", spread(&rate.gflops), rate.side);
        detail("matmul", &format!("{:8}{note}", rate.dtype))
    };
    let copy = format!("{:8}{} GB/s", "f32", spread(&measured.copy_gbytes_per_s));
    measured.matmul.iter().map(product).chain([detail("copy", &copy)]).collect()
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn detail(what: &str, note: &str) -> String {
    line("", what, note)
}

fn line(id: &str, usable: &str, note: &str) -> String {
    let note: String = note.chars().take(COLUMNS - ID_WIDTH - STATE_WIDTH).collect();
    format!("{id:ID_WIDTH$}{usable:STATE_WIDTH$}{note}")
}
