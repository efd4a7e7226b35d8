//! How captured forward passes were computed, as a line on standard error.

use updraft_trainer::CaptureReport;

use crate::terminal::say;
use crate::wrap::hanging;

/// Prints how many passes were replayed, or once why none was.
pub(crate) fn show_captured(report: &CaptureReport) {
    say(&hanging("captured ", &text(report)));
}

fn text(report: &CaptureReport) -> String {
    let CaptureReport { replayed, plain, reason, .. } = report;
    match reason {
        None => format!(
            "{replayed} forward passes were replayed, {plain} computed: the first ones, to compare \
             every bit, and those of other shapes"
        ),
        Some(reason) if *replayed == 0 => format!("no forward pass was replayed: {reason}"),
        Some(reason) => format!("{replayed} forward passes were replayed, then no more: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use updraft_trainer::NotCaptured;

    use super::*;

    #[test]
    fn the_line_has_the_reason_or_the_numbers() {
        let mut report = CaptureReport::default();
        (report.replayed, report.plain) = (7, 2);
        assert!(text(&report).starts_with("7 forward passes were replayed, 2 computed"));
        report.reason = Some(NotCaptured::SharedInput);
        assert!(
            text(&report).ends_with("then no more: the forward pass keeps or returns its input")
        );
        report.replayed = 0;
        assert!(text(&report).starts_with("no forward pass was replayed: the forward pass keeps"));
    }
}
