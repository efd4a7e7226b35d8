//! A generated table with a known interaction of its columns.

use std::fmt::Write;

use crate::random::{Purpose, Random};

/// Drugs and variants; the effect depends only on the pair.
const DRUGS: [&str; 5] = ["asprol", "benzin", "cardol", "dermat", "enalin"];

/// Variants of a gene.
const VARIANTS: [&str; 4] = ["*1/*1", "*1/*2", "*2/*2", "*2/*3"];

/// Effects.
const EFFECTS: [&str; 4] = ["none", "weak", "strong", "toxic"];

/// Draws a table as CSV: `drug,variant,site,dose,effect,symptoms`.
///
/// - `effect` is a function of the pair (drug, variant), `(drug + 2 · variant) mod 4` by their
///   numbers, and random in one row of twenty; either column alone predicts little.
/// - `dose` is between 0 and 10; above 7 the symptoms, divided by `|`, have `nausea`, and for
///   `strong` and `toxic` effects `rash`.
/// - `site` is drawn from 40 sites, few of them often, and does not matter.
///
/// Row `i` is a function of (seed, i) alone.
///
/// # Example
/// ```
/// use updraft_data::{Delimiter, Table, TableSchema, interaction_csv};
///
/// let text = interaction_csv(100, 7);
/// let schema = TableSchema::new().category("drug").category("variant").category("effect");
/// let table = Table::parse(text.as_bytes(), "generated", Delimiter::Comma, schema)?;
/// assert_eq!(table.rows(), 100);
/// # Ok::<(), updraft_data::TableError>(())
/// ```
#[must_use]
pub fn interaction_csv(rows: usize, seed: u64) -> String {
    let mut text = "drug,variant,site,dose,effect,symptoms\n".to_owned();
    for row in 0..rows {
        let mut random = Random::new(Purpose::Interactions, seed, 0, row as u64);
        let mut pick = |count: usize| random.below(count as u64) as usize;
        let (drug, variant) = (pick(DRUGS.len()), pick(VARIANTS.len()));
        // The product of two draws: low numbers often, high ones rarely.
        let site = (pick(40) + 1) * (pick(40) + 1) / 41;
        let usual = (drug + 2 * variant) % EFFECTS.len();
        let effect = if pick(20) == 0 { pick(EFFECTS.len()) } else { usual };
        let dose = random.between(0.0, 10.0);
        let symptoms = match (dose > 7.0, effect >= 2) {
            (true, true) => "nausea|rash",
            (true, false) => "nausea",
            (false, true) => "rash",
            (false, false) => "",
        };
        let (drug, variant, effect) = (DRUGS[drug], VARIANTS[variant], EFFECTS[effect]);
        writeln!(text, "{drug},{variant},site {site},{dose:.3},{effect},{symptoms}")
            .expect("a string takes all text");
    }
    text
}
