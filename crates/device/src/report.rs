//! An inventory as a table of at most 80 columns.

use crate::probe::{Inventory, State};

/// The widest a line of the table may be.
const COLUMNS: usize = 80;

/// Widths of the first two columns, the gaps counted: the longest id is `cubecl-cpu`.
const ID_WIDTH: usize = 12;
const STATE_WIDTH: usize = 10;

impl Inventory {
    /// The inventory as lines of text: id, whether it is usable, and its name or why not.
    #[must_use]
    pub fn table(&self) -> String {
        let mut lines = vec![line("device", "usable", "name, or why not")];
        for entry in &self.entries {
            let (usable, note) = match &entry.state {
                State::Usable => {
                    let name = entry.name.as_deref().unwrap_or("the CPU, through burn-flex");
                    let software = if entry.is_software { " (software)" } else { "" };
                    ("yes", format!("{name}{software}"))
                }
                State::NotCompiled { feature } => {
                    ("no", format!("not compiled in; cargo feature `{feature}`"))
                }
                State::Absent { reason } => ("no", reason.clone()),
            };
            lines.push(line(&entry.id.to_string(), usable, &note));
        }
        lines.join("\n")
    }
}

fn line(id: &str, usable: &str, note: &str) -> String {
    let note: String = note.chars().take(COLUMNS - ID_WIDTH - STATE_WIDTH).collect();
    format!("{id:ID_WIDTH$}{usable:STATE_WIDTH$}{note}")
}
