//! A confusion matrix in a report: cell by cell, or the worst of many classes.

use std::fmt::Write;

use super::plot::escape;

/// A confusion matrix with more classes has no numbers in its cells.
const MOST_NUMBERS: usize = 20;

/// One with more classes is not shown cell by cell: a page grows with the square of the classes, and
/// browsers do not draw the 80 MB of a thousand.
const MOST_CLASSES: usize = 100;

/// Classes, and pairs of classes, that are listed of many.
const MOST_LISTED: usize = 20;

/// The matrix, or for many classes those that are recognized worst and the most frequent confusions.
pub(super) fn confusion(title: Option<&str>, classes: &[String], counts: &[Vec<u64>]) -> String {
    let title = escape(title.unwrap_or("Confusion matrix of the test samples"));
    match classes.len() <= MOST_CLASSES {
        true => matrix(&title, classes, counts),
        false => worst(&title, classes, counts),
    }
}

/// Rows are true classes, columns predicted ones; darker cells have a larger fraction of the row.
fn matrix(title: &str, classes: &[String], counts: &[Vec<u64>]) -> String {
    let mut table = format!(
        "<figure class=\"wide\">\n<figcaption>{title}: rows are true classes, columns predicted \
         ones</figcaption>\n<div class=\"scroll\"><table class=\"confusion\">\n<tr><th></th>"
    );
    for class in classes {
        let _ = write!(table, "<th class=\"turned\"><span>{}</span></th>", escape(class));
    }
    table.push_str("<th class=\"number\">correct</th></tr>\n");
    for (row, (class, counts)) in classes.iter().zip(counts).enumerate() {
        let total = sum(counts);
        let _ = write!(table, "<tr><th>{}</th>", escape(class));
        for (column, (predicted, &count)) in classes.iter().zip(counts).enumerate() {
            let share = count as f64 / total.max(1) as f64;
            let color = if row == column { "0,158,115" } else { "213,94,0" };
            let text = if classes.len() <= MOST_NUMBERS && count > 0 {
                count.to_string()
            } else {
                String::new()
            };
            let _ = write!(
                table,
                "<td style=\"background:rgba({color},{share:.2})\" title=\"{} as {}: {count}\">\
                 {text}</td>",
                escape(class),
                escape(predicted),
            );
        }
        let right = 100.0 * counts.get(row).copied().unwrap_or(0) as f64 / total.max(1) as f64;
        let _ = writeln!(table, "<td class=\"number\">{right:.1} %</td></tr>");
    }
    table.push_str("</table></div>\n</figure>\n");
    table
}

/// The classes with the smallest fraction of correct samples, and the largest wrong counts.
fn worst(title: &str, classes: &[String], counts: &[Vec<u64>]) -> String {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut wrong: Vec<(&str, &str, u64, u64)> = Vec::new();
    for (at, (class, counts)) in classes.iter().zip(counts).enumerate() {
        let samples = sum(counts);
        if samples == 0 {
            continue;
        }
        let right = counts.get(at).copied().unwrap_or(0);
        rows.push(Row { class, right, samples });
        for (other, (predicted, &count)) in classes.iter().zip(counts).enumerate() {
            if other != at && count > 0 {
                wrong.push((class, predicted, count, samples));
            }
        }
    }
    // Equal ones stay in the order of the classes.
    rows.sort_by(|a, b| a.share().total_cmp(&b.share()).then(b.samples.cmp(&a.samples)));
    wrong.sort_by_key(|confusion| std::cmp::Reverse(confusion.2));
    let mut page = format!(
        "<figure>\n<figcaption>{title}: the worst of {} classes</figcaption>\n\
         <div class=\"scroll\"><table>\n<tr><th>class</th><th class=\"number\">correct</th>\
         <th class=\"number\">samples</th></tr>\n",
        classes.len()
    );
    for row in rows.iter().take(MOST_LISTED) {
        let (class, right) = (escape(row.class), 100.0 * row.share());
        let _ = writeln!(
            page,
            "<tr><th>{class}</th><td class=\"number\">{right:.1} %</td>\
             <td class=\"number\">{}</td></tr>",
            row.samples
        );
    }
    page.push_str("</table></div>\n</figure>\n");
    if wrong.is_empty() {
        return page;
    }
    let _ = write!(
        page,
        "<figure>\n<figcaption>{title}: the most frequent confusions</figcaption>\n\
         <div class=\"scroll\"><table>\n<tr><th>true class</th><th>predicted class</th>\
         <th class=\"number\">samples</th><th class=\"number\">of the class</th></tr>\n"
    );
    for (class, predicted, count, samples) in wrong.into_iter().take(MOST_LISTED) {
        let share = 100.0 * count as f64 / samples as f64;
        let _ = writeln!(
            page,
            "<tr><th>{}</th><th>{}</th><td class=\"number\">{count}</td>\
             <td class=\"number\">{share:.1} %</td></tr>",
            escape(class),
            escape(predicted),
        );
    }
    page.push_str("</table></div>\n</figure>\n");
    page
}

/// A class, its correct samples and all of them.
struct Row<'a> {
    class: &'a str,
    right: u64,
    samples: u64,
}

impl Row<'_> {
    fn share(&self) -> f64 {
        self.right as f64 / self.samples as f64
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_classes_show_the_worst_and_the_most_frequent_confusions_on_a_small_page() {
        let count = 1000;
        let classes: Vec<String> = (0..count).map(|class| format!("class-{class:04}<")).collect();
        // Each class has ten samples; class 700 has three right and seven taken for 5, class 3 is
        // empty, and class 8 has one taken for 9.
        let mut counts = vec![vec![0_u64; count]; count];
        for (class, row) in counts.iter_mut().enumerate() {
            row[class] = 10;
        }
        counts[700][700] = 3;
        counts[700][5] = 7;
        counts[3][3] = 0;
        counts[8][8] = 9;
        counts[8][9] = 1;
        let page = confusion(None, &classes, &counts);
        assert!(page.len() < 10_000, "{} bytes", page.len());
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}`: {page}"));
        assert!(place("the worst of 1000 classes") < place("the most frequent confusions"));
        let first = "<tr><th>class-0700&lt;</th><td class=\"number\">30.0 %</td>\
                     <td class=\"number\">10</td></tr>";
        let second = "<tr><th>class-0008&lt;</th><td class=\"number\">90.0 %</td>";
        assert!(place(first) < place(second));
        assert!(place(second) < place("<tr><th>class-0000&lt;</th><td class=\"number\">100.0 %"));
        let pair = "<tr><th>class-0700&lt;</th><th>class-0005&lt;</th>\
                    <td class=\"number\">7</td><td class=\"number\">70.0 %</td></tr>";
        assert!(place(pair) < place("<tr><th>class-0008&lt;</th><th>class-0009&lt;</th>"));
        assert!(!page.contains("class-0003"), "it has no samples");
        // Each of the twenty worst in one row, and two confusions.
        assert_eq!(page.matches("<tr>").count(), 1 + 20 + 1 + 2);
    }

    #[test]
    fn a_hundred_classes_have_a_cell_for_each_pair_and_without_mistakes_no_confusions() {
        let of = |count: usize| {
            let classes: Vec<String> = (0..count).map(|class| class.to_string()).collect();
            let diagonal = |row: usize| (0..count).map(|at| u64::from(at == row)).collect();
            let counts: Vec<Vec<u64>> = (0..count).map(diagonal).collect();
            confusion(Some("own"), &classes, &counts)
        };
        assert_eq!(of(100).matches("<td style=").count(), 100 * 100);
        let many = of(101);
        assert!(!many.contains("<td style=") && !many.contains("confusions"), "{many}");
        assert!(many.contains("own: the worst of 101 classes"), "{many}");
    }
}
