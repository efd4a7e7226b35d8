//! The numbered steps of a command: each has a label, a time, and a name in its error.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

/// The progress of a command with several steps.
#[derive(Debug)]
pub(crate) struct Steps {
    total: usize,
    taken: Vec<Taken>,
}

/// A step that is over.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Taken {
    pub(crate) step: &'static str,
    pub(crate) wall_s: f64,
}

impl Steps {
    pub(crate) const fn new(total: usize) -> Self {
        Self { total, taken: Vec::new() }
    }

    /// Runs the next step, which receives its label, such as `[2/8] test`.
    ///
    /// # Errors
    /// The step's error, prefixed with its number and name.
    pub(crate) fn take<T>(
        &mut self,
        step: &'static str,
        run: impl FnOnce(&str) -> Result<T>,
    ) -> Result<T> {
        let (number, started) = (self.taken.len() + 1, Instant::now());
        let given = run(&label(number, self.total, step))
            .with_context(|| format!("step {number} of {}, {step}", self.total))?;
        self.taken.push(Taken { step, wall_s: started.elapsed().as_secs_f64() });
        Ok(given)
    }

    /// The finished steps, in order.
    pub(crate) fn taken(&self) -> &[Taken] {
        &self.taken
    }
}

/// The label of a step.
pub(crate) fn label(number: usize, total: usize, step: &str) -> String {
    format!("[{number}/{total}] {step}")
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn steps_are_counted_and_a_failed_one_is_named() {
        let mut steps = Steps::new(2);
        let said = steps.take("begin", |label| Ok(label.to_owned())).expect("no error");
        assert_eq!(said, "[1/2] begin");
        let failed = steps.take::<()>("end", |_| bail!("no time")).expect_err("an error");
        assert_eq!(format!("{failed:#}"), "step 2 of 2, end: no time");
        assert_eq!(steps.taken().len(), 1);
    }
}
