//! The importance of keys for an objective.

use optimizer::parameter::{FloatParam, Parameter as _};
use optimizer::{Direction, FanovaConfig, Study};

use crate::space::Space;
use crate::trial::{TrialRecord, TrialState};

/// The coordinate of a key without a value: outside the range 0 to 1 of keys with a value.
const NONE: f64 = -0.5;

/// The share of each key in the variance of an objective over the finished trials, largest first;
/// empty for fewer than four finished trials, or if all values are equal.
///
/// The shares are those of a functional analysis of variance over a forest of regression trees
/// (Hutter et al. 2014) of the crate `optimizer`. They include no interactions and sum to 1.
#[must_use]
pub fn importance(space: &Space, trials: &[TrialRecord], objective: usize) -> Vec<(String, f64)> {
    let finished: Vec<&TrialRecord> =
        trials.iter().filter(|trial| trial.state == TrialState::Finished).collect();
    let values: Vec<f64> = finished.iter().map(|trial| trial.values[objective]).collect();
    // A bootstrap sample of three rows cannot be split.
    if finished.len() < 4 || values.iter().all(|value| *value == values[0]) {
        return Vec::new();
    }
    let study: Study<f64> = Study::new(Direction::Minimize);
    let parameters: Vec<FloatParam> = space
        .parameters()
        .iter()
        .map(|parameter| FloatParam::new(-1.0, 1.0).name(parameter.key()))
        .collect();
    for (trial, value) in finished.iter().zip(values) {
        let place = |(at, value): (usize, &Option<f64>)| {
            let parameter = &space.parameters()[at];
            let place = value.map_or(NONE, |value| parameter.unit(value));
            (parameters[at].id(), optimizer::parameter::ParamValue::Float(place))
        };
        study.enqueue(trial.point.iter().enumerate().map(place).collect());
        let mut asked = study.ask();
        for parameter in &parameters {
            if parameter.suggest(&mut asked).is_err() {
                return Vec::new();
            }
        }
        study.tell(asked, Ok::<f64, String>(value));
    }
    let config = FanovaConfig { seed: Some(0), ..FanovaConfig::default() };
    let Ok(found) = study.fanova_with_config(&config) else { return Vec::new() };
    let sum: f64 = found.main_effects.iter().map(|(_, share)| share).sum();
    if sum <= 0.0 {
        return Vec::new();
    }
    let mut shares: Vec<(String, f64)> =
        found.main_effects.into_iter().map(|(key, share)| (key, share / sum)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_key_that_decides_has_nearly_all_of_the_importance() {
        let text = r#"
            rate = { kind = "float", low = 1e-4, high = 1.0, log = true }
            other = { kind = "float", low = 0.0, high = 1.0 }
            net = { kind = "categorical", choices = ["a", "b"] }
            size = { kind = "integer", low = 1, high = 4, when = { net = "b" } }
        "#;
        let space = Space::read(&toml::from_str(text).expect("TOML")).expect("a space");
        let at = |key| space.parameters().iter().position(|it| it.key() == key).expect("there");
        let rate = at("rate");
        let mut random = Random::new(1, 0);
        let trials: Vec<TrialRecord> = (0..60)
            .map(|number| {
                let point = space.point(|_, parameter| match parameter.choices() {
                    Some(count) => random.below(count as u64) as f64,
                    None => parameter.value(random.unit()),
                });
                let value = (point[rate].expect("a value").log10() + 2.0).powi(2);
                TrialRecord {
                    number,
                    attempt: 1,
                    lost: 0,
                    point,
                    state: TrialState::Finished,
                    intermediate: Vec::new(),
                    values: vec![value],
                    reason: None,
                    note: None,
                    seconds: 0.0,
                    worker: String::new(),
                }
            })
            .collect();
        let found = importance(&space, &trials, 0);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[0].0, "rate", "{found:?}");
        assert!(found[0].1 > 0.7, "{found:?}");
        assert!((found.iter().map(|it| it.1).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(found, importance(&space, &trials, 0), "the same trials, the same shares");
        assert!(importance(&space, &trials[..3], 0).is_empty());
    }
}
