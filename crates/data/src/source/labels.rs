//! A generated table whose labels follow from its columns by known rules.

use std::fmt::Write;

use crate::random::{Purpose, Random};

/// The sites, and what `x3` has to exceed in each for the label `shifted`, in thousandths.
const SITES: [(&str, i32); 4] = [("north", -600), ("east", -200), ("south", 200), ("west", 600)];

/// Numbers of a row.
const NUMBERS: usize = 6;

/// Draws a table as CSV: `x1` to `x6`, `site` and `labels`, which are divided by `|`.
///
/// Numbers are uniform in [−1, 1] in steps of a thousandth. The labels are
/// - `sum` if `x1 + x2 > 0`,
/// - `shifted` if `x3` exceeds a number of the site,
/// - `product` if `x1 · x3 > 0`, which neither of them shows alone,
/// - `ring` if `|x4| > 0.6`,
/// - `rare` if `x5 + x6 > 1.2`, in 8 % of the rows,
/// - `either` with `sum` or `shifted`, and `both` with `product` and `ring`.
///
/// `noise` is the probability with which each of the first five is wrong in a row; the last two
/// follow from these labels as they are in the table, so that labels are correlated beyond what the
/// columns explain.
///
/// Row `i` is a function of (seed, noise, i) alone.
///
/// # Panics
/// If `noise` is not a probability.
///
/// # Example
/// ```
/// use updraft_data::{Delimiter, Table, TableSchema, label_csv};
///
/// let text = label_csv(100, 7, 0.05);
/// let schema = TableSchema::new().number("x1").multi_label("labels", '|');
/// let table = Table::parse(text.as_bytes(), "generated", Delimiter::Comma, schema)?;
/// assert_eq!(table.rows(), 100);
/// # Ok::<(), updraft_data::TableError>(())
/// ```
#[must_use]
pub fn label_csv(rows: usize, seed: u64, noise: f64) -> String {
    assert!((0.0..=1.0).contains(&noise), "`noise` is {noise}; expected a probability");
    let mut text = "x1,x2,x3,x4,x5,x6,site,labels\n".to_owned();
    for row in 0..rows {
        let mut random = Random::new(Purpose::Labels, seed, 0, row as u64);
        let numbers: [i32; NUMBERS] = std::array::from_fn(|_| random.below(2001) as i32 - 1000);
        let [x1, x2, x3, x4, x5, x6] = numbers;
        let (site, least) = SITES[random.below(SITES.len() as u64) as usize];
        let rules = [x1 + x2 > 0, x3 > least, x1 * x3 > 0, x4.abs() > 600, x5 + x6 > 1200];
        let [sum, shifted, product, ring, rare] =
            rules.map(|rule| rule != (random.open_unit() < noise));
        let labels = [
            ("sum", sum),
            ("shifted", shifted),
            ("product", product),
            ("ring", ring),
            ("rare", rare),
            ("either", sum || shifted),
            ("both", product && ring),
        ];
        for number in numbers {
            write!(text, "{:.3},", f64::from(number) / 1000.0).expect("a string takes all text");
        }
        let labels: Vec<&str> =
            labels.iter().filter(|(_, is_there)| *is_there).map(|(label, _)| *label).collect();
        writeln!(text, "{site},{}", labels.join("|")).expect("a string takes all text");
    }
    text
}
