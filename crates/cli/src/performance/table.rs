//! The tables of a comparison, at most eighty columns wide.

use super::compared::Difference;
use super::order::Work;
use super::rows::Kind;
use super::summary::{Comparison, Measured, RowResult};
use crate::wrap::{counted, hanging};

/// A metric that differs by more is named.
const METRIC_TOLERANCE: f64 = 0.01;

/// The width of names.
const NAME: usize = 22;

/// The tables of training or of inference: times, then differences of the results.
pub(crate) fn lines(comparison: &Comparison) -> Vec<String> {
    let Comparison { work, rows, without_effect, short, steps, repeats } = comparison;
    let mut lines = vec![format!(
        "{}: {}, {}; medians, ± half of their range",
        work.name(),
        counted(*steps as u64, "step"),
        counted(*repeats as u64, "repeat"),
    )];
    lines.push(format!(
        "{:NAME$}{:>9}{:>7}{:>8}{:>9}{:>9}{:>9}{:>7}",
        "",
        format!("{short}/s"),
        "±",
        "ratio",
        "p50 ms",
        "p95 ms",
        "first ms",
        "MiB"
    ));
    let mut kind = Kind::Baseline;
    for result in rows {
        if result.row.kind == Kind::Cumulative && kind != Kind::Cumulative {
            lines.push("one after another:".to_owned());
        }
        kind = result.row.kind;
        match &result.measured {
            Ok(measured) => lines.extend(named(&result.row.name, &times(result, measured))),
            Err(reason) => lines.push(hanging(&format!("{:NAME$}", result.row.name), reason)),
        }
    }
    for (name, reason) in without_effect {
        lines.push(hanging(&format!("{name:NAME$}no effect: "), reason));
    }
    lines.extend(device_memory(comparison));
    lines.push(String::new());
    lines.extend(differences(comparison));
    lines
}

/// The table of the memory of a device, if its backend reports it for any row.
fn device_memory(comparison: &Comparison) -> Vec<String> {
    let measured =
        comparison.rows.iter().filter_map(|row| Some((row, row.measured.as_ref().ok()?)));
    let known = measured.filter(|(_, it)| it.device_reserved_bytes.is_some());
    let rows: Vec<String> = known
        .flat_map(|(row, it)| {
            let mib = |bytes: Option<u64>| {
                bytes.map_or_else(|| "-".to_owned(), |bytes| (bytes >> 20).to_string())
            };
            let (in_use, reserved) = (mib(it.device_peak_bytes), mib(it.device_reserved_bytes));
            named(&row.row.name, &format!("{in_use:>9}{reserved:>10}"))
        })
        .collect();
    if rows.is_empty() {
        return rows;
    }
    let head = format!("{:NAME$}{:>9}{:>10}", "MiB of the device:", "in use", "reserved");
    [String::new(), head].into_iter().chain(rows).collect()
}

/// A name with what follows it, which begins on another line after a long name.
fn named(name: &str, rest: &str) -> Vec<String> {
    if name.chars().count() < NAME {
        return vec![format!("{name:NAME$}{rest}")];
    }
    vec![hanging("", name), format!("{:NAME$}{rest}", "")]
}

fn times(result: &RowResult, measured: &Measured) -> String {
    let ratio = result.ratio.map_or_else(String::new, |(ratio, verdict)| {
        format!("{}{}", number(ratio.median), verdict.sign())
    });
    let ms = |seconds: f64| number(1e3 * seconds);
    let mib = measured.peak_bytes.map_or_else(|| "-".to_owned(), |it| (it >> 20).to_string());
    format!(
        "{:>9}{:>7}{ratio:>8}{:>9}{:>9}{:>9}{mib:>7}",
        number(measured.rate.median),
        share(measured.rate.relative()),
        ms(measured.p50_s.median),
        ms(measured.p95_s.median),
        ms(measured.first_s.median),
    )
}

/// A positive number in at most eight characters.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

/// The table of results beside the baseline's.
fn differences(comparison: &Comparison) -> Vec<String> {
    let compared = || comparison.rows.iter().filter_map(|row| row.difference.as_ref());
    let Some(first) = compared().find_map(|found| found.as_ref().ok()) else {
        let reason = |row: &RowResult| match &row.difference {
            Some(Err(reason)) => Some(format!("{}: {reason}", row.row.name)),
            _ => None,
        };
        return comparison.rows.iter().filter_map(reason).map(|it| hanging("", &it)).collect();
    };
    let (what, last) = match comparison.work {
        Work::Training => ("gradients of the first batch".to_owned(), "loss"),
        Work::Inference => {
            (format!("outputs for {} test {}", first.samples, comparison.short), "metrics")
        }
    };
    let mut lines =
        vec![hanging("", &format!("{what} beside the baseline, both before training:"))];
    lines.push(format!(
        "{:NAME$}{:>10}{:>10}{:>11}{:>9}{:>9}{last:>9}",
        "", "largest", "relative", "cosine", "PSNR dB", "SSIM",
    ));
    for row in &comparison.rows {
        match &row.difference {
            Some(Ok(found)) => lines.extend(named(&row.row.name, &apart(found))),
            Some(Err(reason)) => {
                lines.push(hanging(&format!("{:NAME$}not comparable: ", row.row.name), reason));
            }
            None => {}
        }
    }
    for row in &comparison.rows {
        let Some(Ok(found)) = &row.difference else { continue };
        let beyond = found.metrics.iter().filter(|pair| !pair.is_within(METRIC_TOLERANCE));
        let beyond: Vec<String> = beyond
            .map(|pair| format!("{} {}", pair.spec.name, percent(pair.difference())))
            .collect();
        if !beyond.is_empty() {
            let text = format!("more than 1 % apart: {}", beyond.join(", "));
            lines.extend([hanging(&format!("{:NAME$}", row.row.name), &text)]);
        }
    }
    lines
}

fn apart(found: &Difference) -> String {
    let parity = &found.parity;
    let psnr = match parity.psnr_db {
        infinite if infinite == f64::INFINITY => "equal".to_owned(),
        finite => format!("{finite:.1}"),
    };
    let ssim = found.ssim.map_or_else(|| "-".to_owned(), |ssim| format!("{ssim:.4}"));
    let last = match (found.loss, found.worst_metric()) {
        (Some((expected, loss)), _) if expected == loss => percent(0.0),
        (Some((expected, loss)), _) => percent((loss - expected) / expected.abs()),
        (None, Some(pair)) => percent(pair.difference()),
        (None, None) => "-".to_owned(),
    };
    format!(
        "{:>10}{:>10}{:>11.7}{psnr:>9}{ssim:>9}{last:>9}",
        format!("{:.1e}", parity.max_abs),
        format!("{:.1e}", parity.relative_error()),
        parity.cosine,
    )
}

/// A share in per cent.
pub(crate) fn share(share: f64) -> String {
    let digits = if share < 0.1 { 1 } else { 0 };
    format!("{:.digits$} %", 100.0 * share)
}

/// A difference in per cent; one that rounds to zero has no sign.
pub(crate) fn percent(difference: f64) -> String {
    let text = format!("{:+.2} %", 100.0 * difference);
    if text[1..] == *"0.00 %" { "0.00 %".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use updraft_precision::Parity;

    use super::super::summary::tests::comparison;
    use super::*;

    #[test]
    fn tables_fit_eighty_columns_and_name_what_has_no_effect() {
        let long = "train.workers=4 data.cache={kind=\"none\"} train.recompute=\"segments\"";
        let mut found = comparison(&[
            ("baseline", &[1.0, 1.1]),
            ("slow", &[2.0, 2.2]),
            (long, &[1e-4, 1e-4]),
            ("+ slow", &[2.0, 2.2]),
            ("large", &[1.0, 1.0]),
        ]);
        let parity = Parity::between(&[1.0, 2.0], &[1.0, 2.5]).expect("same length");
        let same = Parity::between(&[1.0], &[1.0]).expect("same length");
        let of = |parity, loss| {
            Ok(Difference { samples: 0, parity, ssim: None, metrics: vec![], loss: Some(loss) })
        };
        found.rows[1].difference = Some(of(parity, (2.0, 2.1)));
        found.rows[2].difference = Some(of(same, (2.0, 2.0)));
        found.rows[3].row.kind = Kind::Cumulative;
        found.rows[3].difference = Some(Err("its first batch has other samples".to_owned()));
        found.rows[4].measured = Err("out of memory".to_owned());
        assert!(device_memory(&found).is_empty(), "no backend has reported it");
        let of_slow = found.rows[1].measured.as_mut().expect("measured");
        of_slow.device_peak_bytes = Some(300 << 20);
        of_slow.device_reserved_bytes = Some(512 << 20);
        let lines = lines(&found);
        let text = lines.join("\n");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        for expected in [
            "training: 4 steps, 2 repeats; medians, ± half of their range",
            "slow                       4.77  4.8 %   0.50-     2100     2100     2000      1",
            "fusion                no effect: flex does not have it",
            "large                 out of memory",
            "+ slow                not comparable: its first batch has other samples",
            "one after another:",
            "MiB of the device:       in use  reserved\nslow                        300       512\n\n",
            "slow                      5.0e-1    2.2e-1  0.9965458     15.1        -  +5.00 %",
            "0.0e0     0.0e0  1.0000000    equal        -   0.00 %",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
        }
    }
}
