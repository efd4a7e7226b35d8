//! The report as one self-contained HTML page.

use std::fmt::Write;

use super::super::outcome::table;
use super::checks;
use super::entries::Entry;
use super::folder::{Report, Timed, date, short};
use super::samples::Summary;
use super::size::Bench;
use crate::results::escape;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2330; background: #fff; }
pre { background: #f4f5f7; padding: .75rem 1rem; overflow-x: auto; font-size: 13px; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; } p { margin: .2rem 0 .6rem; }
table { border-collapse: collapse; font-size: 14px; } td, th { padding: .1rem .8rem .1rem 0; }
th { text-align: left; font-weight: 600; } td.n, th.n { text-align: right; }
.bad { color: #b3261e; } .good { color: #1b6e3a; }";

/// The page of a report in a folder of this name.
pub(super) fn page(report: &Report, name: &str) -> String {
    let title = format!("{} through {}", short(&report.adapter), report.device);
    let day = date(report.unix_s);
    let mut body = format!("<h1>{}</h1>\n<p>{day}. {}</p>\n", escape(&title), summary(report));
    if report.is_emulated {
        body.push_str(
            "<p class=\"bad\">The processor emulates this GPU: the times below show that the \
             command works, and nothing about cards.</p>\n",
        );
    }
    body.push_str(&machine(report));
    body.push_str("<h2>Tests</h2>\n");
    for run in &report.suite {
        let text = format!("{}\n{}", run.adapters.join("\n"), table(&run.outcomes));
        let _ = writeln!(body, "<pre>{}</pre>", escape(&text));
    }
    let _ = write!(
        body,
        "<h2>Benchmarks</h2>\n<p>Entries of size <code>{}</code>: {}. Medians of wall-clock time; \
         every strategy was checked against a reference in f64 before it was timed.</p>\n",
        report.size.name(),
        escape(&report.why_size)
    );
    report.timed.iter().for_each(|timed| body.push_str(&benchmark(timed, report.unsampled)));
    let rows = report.rows(name);
    if !rows.is_empty() {
        let _ = write!(
            body,
            "<h2>Add it to the repository</h2>\n<p>Copy this folder to <code>benches/runs/</code>, \
             and these rows to the table of <code>benches/runs/README.md</code>.</p>\n\
             <pre>{}</pre>\n",
            escape(&rows)
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(&title)
    )
}

/// One sentence about faults, and a list of them.
fn summary(report: &Report) -> String {
    let mut faults = report.faults();
    let not_run = report.not_run();
    if !not_run.is_empty() {
        faults.push(format!("the report is not complete; not run: {}", not_run.join(", ")));
    }
    if faults.is_empty() {
        return "<span class=\"good\">All tests passed, and all benchmarks ended.</span>"
            .to_owned();
    }
    let lines: String = faults.iter().map(|fault| format!("<li>{}</li>", escape(fault))).collect();
    format!("<span class=\"bad\">Not everything passed:</span></p>\n<ul>{lines}</ul>\n<p>")
}

fn machine(report: &Report) -> String {
    let mut text = String::from("<h2>Machine</h2>\n<table>\n");
    for (name, version) in &report.versions {
        let _ = writeln!(text, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(version));
    }
    if let Some(card) = report.card.as_ref().and_then(|card| card.as_object()) {
        for (name, value) in card.iter().filter(|(_, value)| value.is_number()) {
            let _ = writeln!(text, "<tr><th>{}</th><td>{value}</td></tr>", escape(name));
        }
    }
    let _ = write!(text, "</table>\n<pre>{}</pre>\n", escape(&checks::table(&report.checks)));
    text
}

fn benchmark(timed: &Timed, unsampled: Option<&str>) -> String {
    let Timed { bench, seconds, failure, entries, during, .. } = timed;
    let Bench { name, filter, about } = bench;
    let mut text =
        format!("<h2>{name}</h2>\n<p>{about}: <code>{}</code>, {seconds:.0} s", escape(filter));
    if !entries.is_empty() {
        let _ = write!(text, ", <a href=\"{name}/report.html\">all samples</a>");
    }
    text.push_str(".</p>\n");
    if let Some(failure) = failure {
        let _ = writeln!(text, "<p class=\"bad\">{}</p>", escape(failure));
    }
    entries.iter().for_each(|each| text.push_str(&entry(each)));
    match (during, unsampled) {
        (Some(during), _) => text.push_str(&sampled(during)),
        (None, Some(why)) => {
            let _ = writeln!(text, "<p>The card was not sampled: {}.</p>", escape(why));
        }
        (None, None) => text.push_str("<p>The driver returned no sample.</p>\n"),
    }
    text
}

fn entry(entry: &Entry) -> String {
    let mut text = format!(
        "<h3>{}</h3>\n<p>{}</p>\n<table>\n<tr><th>strategy</th><th class=\"n\">median ms</th>\
         <th class=\"n\">× ours</th><th>by</th></tr>\n",
        escape(&entry.id),
        escape(&entry.about)
    );
    for row in &entry.rows {
        let strategy = escape(&row.strategy);
        let _ = match &row.median {
            Ok(ms) => {
                let ratio = entry.ratio(row).map_or_else(String::new, |it| format!("{it:.2}"));
                writeln!(
                    text,
                    "<tr><td>{strategy}</td><td class=\"n\">{ms:.3}</td>\
                     <td class=\"n\">{ratio}</td><td>{}</td></tr>",
                    escape(&row.about)
                )
            }
            Err(reason) => writeln!(
                text,
                "<tr><td>{strategy}</td><td colspan=\"3\">{}</td></tr>",
                escape(reason)
            ),
        };
    }
    text.push_str("</table>\n");
    if let Some(line) = entry.beside_plain() {
        let _ = writeln!(text, "<p>{}</p>", escape(&line));
    }
    text
}

fn sampled(during: &Summary) -> String {
    let mut text = format!(
        "<table>\n<tr><th>{} samples of the card</th><th class=\"n\">least</th>\
         <th class=\"n\">mean</th><th class=\"n\">greatest</th></tr>\n",
        during.count
    );
    for (name, range) in &during.ranges {
        let _ = write!(text, "<tr><td>{name}</td>");
        for value in [range.least, range.mean, range.most] {
            let _ = write!(text, "<td class=\"n\">{value:.0}</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::entries;
    use super::super::folder::tests::{a_benchmark, a_report};
    use super::*;

    fn with_a_benchmark() -> Report {
        let outcome = |strategy: &str, role: &str, ms: Option<f64>| {
            let timing = ms.map(|ms| json!({ "wall_ns": [ms * 1e6] }));
            let failure = ms.is_none().then_some("it <failed>");
            json!({ "strategy": strategy, "role": role, "timing": timing, "failure": failure })
        };
        let run = json!({ "entries": [{ "id": "kan/a", "about": "a layer", "outcomes": [
            outcome("updraft-wgpu", "dispatched", Some(2.0)),
            outcome("wgpu", "baseline", Some(3.0)),
            outcome("flashkan", "peer", None),
        ] }] });
        let mut report = a_report();
        report.timed.push(a_benchmark(entries::of_run(&run)));
        report
    }

    #[test]
    fn the_page_has_tests_times_samples_and_faults_and_needs_nothing_else() {
        let page = page(&with_a_benchmark(), "day-card");
        for part in [
            "<h1>llvmpipe through wgpu</h1>",
            "The processor emulates this GPU",
            "Not everything passed",
            "benchmark `kan`: was stopped",
            "FAILED: 1 tests &lt;failed&gt;",
            "a &lt;note&gt;",
            "<td>updraft-wgpu</td><td class=\"n\">2.000</td><td class=\"n\">1.00</td>",
            "<td>wgpu</td><td class=\"n\">3.000</td><td class=\"n\">1.50</td>",
            "it &lt;failed&gt;",
            "plain (`wgpu`) takes 1.50 × what `updraft-wgpu` takes",
            "<a href=\"kan/report.html\">",
            "1 samples of the card",
            "[day-card/kan](day-card/kan/run.json)",
        ] {
            assert!(page.contains(part), "`{part}` is not in {page}");
        }
        for foreign in ["<script", "http:", "https:", "src=", "@import", "<failed>", "<note>"] {
            assert!(!page.contains(foreign), "`{foreign}` is in {page}");
        }
    }

    #[test]
    fn a_report_without_faults_says_so_and_one_that_was_stopped_does_not() {
        let mut report = a_report();
        report.suite.clear();
        let stopped = page(&report, "day-card");
        assert!(!stopped.contains("All tests passed"), "{stopped}");
        assert!(stopped.contains("not run: matmul, kan, infer, int8, train"), "{stopped}");
        assert!(!stopped.contains("Add it to the repository"), "{stopped}");
        let ended = |bench| Timed { bench, failure: None, ..a_benchmark(Vec::new()) };
        report.timed = report.size.benches().into_iter().map(ended).collect();
        let page = page(&report, "day-card");
        assert!(page.contains("All tests passed"), "{page}");
        assert!(!page.contains("not complete"), "{page}");
    }
}
