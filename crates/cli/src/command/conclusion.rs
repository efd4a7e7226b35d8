//! The lines at the end of a run.

use updraft_run::Trained;
use updraft_trainer::Ending;

use crate::progress::{Display, duration, evaluation_text};
use crate::wrap::hanging;

/// Prints the score and the times of a run that was not stopped.
pub(super) fn conclude(display: &Display, trained: &Trained) {
    if trained.ending == Ending::Stopped {
        return;
    }
    if trained.ending == Ending::Early {
        display.line("early    epochs stopped getting better; the best one's model is served");
    } else if trained.is_earlier {
        display.line("best     an earlier epoch was better; its model is served");
    }
    let test = trained.test.as_ref();
    let test = test.map_or_else(String::new, |test| format!("test {}, ", evaluation_text(test)));
    let cpu = trained
        .cpu_s
        .map_or_else(String::new, |cpu_s| format!(", {} on all cores", duration(cpu_s)));
    display.line(&hanging("done     ", &format!("{test}{}{cpu}", duration(trained.wall_s))));
}
