//! What a run on ranks recorded.

use serde_json::Value;

/// What a run recorded.
#[derive(Debug, PartialEq)]
pub(super) struct Measured {
    /// The updates of rank 0.
    pub(super) step_ms: Vec<f64>,
    /// Their exchanges, with the time in which rank 0 waits for the others.
    pub(super) exchange_ms: Vec<f64>,
    /// The training losses of the first and the last epoch.
    pub(super) losses: [f64; 2],
}

impl Measured {
    /// Reads the lines of metrics.
    ///
    /// # Errors
    /// For a loss that did not fall, or ranks that do not have the same parameters after each epoch.
    pub(super) fn read(text: &str, ranks: usize) -> Result<Self, String> {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (mut step_ms, mut exchange_ms, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines {
            match line["event"].as_str() {
                Some("step") => {
                    let ms = |name: &str| {
                        let us = line[name].as_f64().ok_or(format!("a step has no {name}"));
                        us.map(|us| 1e-3 * us)
                    };
                    step_ms.push(ms("step_us")?);
                    exchange_ms.push(ms("rank_wait_us")? + ms("exchange_us")?);
                }
                Some("epoch") => {
                    losses.extend(line["train"]["loss"].as_f64());
                    check_ranks(&line, ranks)?;
                }
                _ => {}
            }
        }
        let (Some(first), Some(last)) = (losses.first(), losses.last()) else {
            return Err("the run has no epoch with a loss".to_owned());
        };
        let has_fallen = last < first;
        if !has_fallen {
            return Err(format!("the training loss is {last} after {first}; it must fall"));
        }
        if exchange_ms.is_empty() {
            return Err("the run has no step".to_owned());
        }
        Ok(Self { step_ms, exchange_ms, losses: [*first, *last] })
    }
}

/// Checks that an epoch is of so many ranks, with the same parameters.
fn check_ranks(epoch: &Value, ranks: usize) -> Result<(), String> {
    let number = &epoch["epoch"];
    let of_ranks = epoch["ranks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if of_ranks.len() != ranks {
        return Err(format!("epoch {number} is of {} ranks instead of {ranks}", of_ranks.len()));
    }
    let parameters = of_ranks.iter().map(|rank| rank["parameters"].as_u64());
    let parameters: Vec<u64> =
        parameters.collect::<Option<_>>().ok_or("a rank has no fingerprint of its parameters")?;
    match parameters.iter().position(|other| *other != parameters[0]) {
        None => Ok(()),
        Some(rank) => {
            Err(format!("rank {rank} has other parameters than rank 0 after epoch {number}"))
        }
    }
}

/// The nearest rank.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_falling_loss_and_equal_ranks() {
        let text = |losses: [f64; 2], parameters: [u64; 2]| {
            let step = r#"{"event":"step","step_us":4000,"rank_wait_us":500,"exchange_us":1500}"#;
            let epoch = |loss: f64| {
                let [first, second] = parameters;
                format!(
                    r#"{{"event":"epoch","epoch":1,"train":{{"loss":{loss}}},"ranks":[{{"parameters":{first}}},{{"parameters":{second}}}]}}"#
                )
            };
            format!("{step}\n{}\n{step}\n{}\n", epoch(losses[0]), epoch(losses[1]))
        };
        let measured = Measured::read(&text([2.0, 1.0], [7, 7]), 2).unwrap();
        let (step_ms, exchange_ms) = (vec![4.0, 4.0], vec![2.0, 2.0]);
        assert_eq!(measured, Measured { step_ms, exchange_ms, losses: [2.0, 1.0] });
        let refused = |text: &str, ranks| Measured::read(text, ranks).unwrap_err();
        assert!(refused(&text([1.0, 2.0], [7, 7]), 2).contains("it must fall"));
        assert!(refused(&text([2.0, 1.0], [7, 8]), 2).contains("rank 1 has other parameters"));
        assert!(refused(&text([2.0, 1.0], [7, 7]), 3).contains("of 2 ranks instead of 3"));
        assert!(refused("", 2).contains("no epoch"));
    }

    #[test]
    fn percentiles_are_the_nearest_ranks() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!([0.1, 0.5, 1.0].map(|share| percentile(&values, share)), [1.0, 5.0, 10.0]);
    }
}
