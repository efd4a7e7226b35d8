//! The page of `compare-options`: rates as bars, times, memory and differences as tables.

use std::fmt::Write;

use super::page::document;
use super::plot::escape;
use crate::performance::{Comparison, Kind, RowResult, Verdict, number};

/// Colors of bars: the baseline and what is the same, faster, and slower (Okabe and Ito 2008).
const COLORS: [&str; 3] = ["#9aa0a6", "#009e73", "#d55e00"];

/// The page of the comparisons of a config.
pub(crate) fn options_page(name: &str, about: &[String], comparisons: &[Comparison]) -> String {
    let title = format!("{name}: optimizations compared");
    let mut body = format!("<h1>{}</h1>\n", escape(&title));
    for line in about {
        let _ = writeln!(body, "<p>{}</p>", escape(line));
    }
    for comparison in comparisons {
        section(&mut body, comparison);
    }
    document(&title, &body)
}

fn section(body: &mut String, comparison: &Comparison) {
    let (work, short) = (comparison.work.name(), comparison.short);
    let _ = writeln!(
        body,
        "<h2>{}: {} per second</h2>\n<p>Medians of {} repeats of {} steps; lines are the smallest \
         and the largest repeat. Gray is the baseline and what does not differ from it by more \
         than the spread, green is faster, orange is slower.</p>",
        capitalized(work),
        escape(short),
        comparison.repeats,
        comparison.steps
    );
    body.push_str(&chart(comparison));
    let _ = write!(
        body,
        "<div class=\"scroll\"><table>\n<tr><th></th><th class=\"number\">{}/s</th>\
         <th class=\"number\">ratio</th><th class=\"number\">p50 ms</th>\
         <th class=\"number\">p95 ms</th><th class=\"number\">first step ms</th>\
         <th class=\"number\">waiting for data</th><th class=\"number\">peak MiB</th>\
         <th class=\"number\">reserved MiB</th></tr>\n",
        escape(short)
    );
    for row in &comparison.rows {
        times(body, row);
    }
    for (name, reason) in &comparison.without_effect {
        let _ = writeln!(
            body,
            "<tr><td>{name}</td><td colspan=\"8\">no effect: {}</td></tr>",
            escape(reason)
        );
    }
    body.push_str("</table></div>\n");
    differences(body, comparison);
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The name of a row; those that are added to the rows above are indented.
fn name(row: &RowResult) -> String {
    let name = escape(&row.row.name);
    match row.row.kind {
        Kind::Cumulative => format!("&#160;&#160;&#160;{}", name.replace(' ', "&#160;")),
        Kind::Baseline | Kind::Alone => name,
    }
}

fn times(body: &mut String, row: &RowResult) {
    let _ = match &row.measured {
        Err(reason) => writeln!(
            body,
            "<tr><td>{}</td><td colspan=\"8\">{}</td></tr>",
            name(row),
            escape(reason)
        ),
        Ok(measured) => {
            let ratio = row.ratio.map_or_else(String::new, |(ratio, _)| {
                format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high)
            });
            let mib = |bytes: Option<u64>| {
                bytes.map_or_else(String::new, |bytes| (bytes >> 20).to_string())
            };
            let cells = [
                format!(
                    "{} ± {:.1} %",
                    number(measured.rate.median),
                    100.0 * measured.rate.relative()
                ),
                ratio,
                format!("{:.2}", 1e3 * measured.p50_s.median),
                format!("{:.2}", 1e3 * measured.p95_s.median),
                format!("{:.1}", 1e3 * measured.first_s.median),
                format!("{:.1} %", 100.0 * measured.data_share.median),
                mib(measured.peak_bytes),
                // Only devices with memory pools have it.
                mib(measured.device_reserved_bytes),
            ];
            let cells = cells.map(|cell| format!("<td class=\"number\">{cell}</td>")).concat();
            writeln!(body, "<tr><td>{}</td>{cells}</tr>", name(row))
        }
    };
}

fn differences(body: &mut String, comparison: &Comparison) {
    if comparison.rows.iter().all(|row| row.difference.is_none()) {
        return;
    }
    body.push_str(
        "<h2>Results beside the baseline</h2>\n<p>Training: gradients of the first batch; \
         inference: outputs for test data, with the metrics. Both before training, with the same \
         inputs and the same initial parameters; the relative error is in Euclidean norms.</p>\n\
         <div class=\"scroll\"><table>\n<tr><th></th><th class=\"number\">largest error</th>\
         <th class=\"number\">relative error</th><th class=\"number\">cosine</th>\
         <th class=\"number\">PSNR dB</th><th class=\"number\">SSIM</th>\
         <th>loss and metrics</th></tr>\n",
    );
    for row in &comparison.rows {
        let _ = match &row.difference {
            None => Ok(()),
            Some(Err(reason)) => writeln!(
                body,
                "<tr><td>{}</td><td colspan=\"6\">not comparable: {}</td></tr>",
                name(row),
                escape(reason)
            ),
            Some(Ok(found)) => {
                let parity = &found.parity;
                let psnr = if parity.psnr_db.is_finite() {
                    format!("{:.1}", parity.psnr_db)
                } else {
                    "equal".to_owned()
                };
                let cells = [
                    format!("{:.2e}", parity.max_abs),
                    format!("{:.2e}", parity.relative_error()),
                    format!("{:.8}", parity.cosine),
                    psnr,
                    found.ssim.map_or_else(|| "–".to_owned(), |ssim| format!("{ssim:.5}")),
                ];
                let cells = cells.map(|cell| format!("<td class=\"number\">{cell}</td>")).concat();
                let loss =
                    found.loss.map(|(expected, loss)| format!("loss {expected:.6} → {loss:.6}"));
                let metrics = found
                    .metrics
                    .iter()
                    .map(|pair| format!("{} {:+.2} %", pair.spec.name, 100.0 * pair.difference()));
                let all: Vec<String> = loss.into_iter().chain(metrics).collect();
                let name = name(row);
                writeln!(
                    body,
                    "<tr><td>{name}</td>{cells}<td class=\"words\">{}</td></tr>",
                    escape(&all.join(", "))
                )
            }
        };
    }
    body.push_str("</table></div>\n");
}

/// Rates as bars, with the spread of the repeats as lines, and a line at the baseline.
fn chart(comparison: &Comparison) -> String {
    let measured =
        || comparison.rows.iter().filter_map(|row| Some((row, row.measured.as_ref().ok()?)));
    let most = measured().map(|(_, measured)| measured.rate.high).fold(0.0, f64::max);
    if !(most.is_finite() && most > 0.0) {
        return String::new();
    }
    let percent = |rate: f64| 100.0 * rate / most;
    let baseline = measured().next().map_or(0.0, |(_, measured)| percent(measured.rate.median));
    let mut table = String::from("<table class=\"rates\">\n");
    for (row, measured) in measured() {
        let color = match row.ratio.map(|(_, verdict)| verdict) {
            Some(Verdict::Faster) => COLORS[1],
            Some(Verdict::Slower) => COLORS[2],
            Some(Verdict::Same | Verdict::Unknown) | None => COLORS[0],
        };
        let rate = measured.rate;
        let ratio =
            row.ratio.map_or_else(String::new, |(ratio, _)| format!(" ({:.2})", ratio.median));
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td class=\"place\"><div class=\"rate\" style=\"width:{:.1}%;\
             background:{color}\"></div><div class=\"spread\" style=\"left:{:.1}%;width:{:.1}%\">\
             </div><div class=\"baseline\" style=\"left:{baseline:.1}%\"></div></td>\
             <td class=\"number\">{}{ratio}</td></tr>",
            name(row),
            percent(rate.median),
            percent(rate.low),
            percent(rate.high - rate.low),
            number(rate.median),
        );
    }
    table.push_str("</table>\n");
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::performance::planted;

    #[test]
    fn a_page_has_a_bar_for_each_row_in_the_color_of_its_verdict() {
        let comparison =
            planted(&[("baseline", &[1.0, 1.1]), ("<slow>", &[2.0, 2.2]), ("fast", &[0.5, 0.5])]);
        let page = options_page("a & b", &["on flex".to_owned()], &[comparison]);
        assert_eq!(page.matches("class=\"rate\"").count(), 3, "{page}");
        assert_eq!(page.matches("background:#d55e00").count(), 1);
        assert_eq!(page.matches("background:#009e73").count(), 1);
        for expected in
            ["a &amp; b", "&lt;slow&gt;", "no effect: flex does not have it", "0.50 (0.50–0.50)"]
        {
            assert!(page.contains(expected), "`{expected}` is missing: {page}");
        }
        assert!(!page.contains("<slow>") && !page.contains("<script"), "{page}");
    }
}
