//! The choice of bits for each layer: the least noise within a number of bytes.

/// The most steps of bytes that the choice distinguishes; the time is proportional to them.
const STEPS: usize = 1 << 16;

/// One way to store a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) bytes: usize,
    /// Its effect; effects of layers add up.
    pub(super) noise: f64,
}

/// The least noise of all layers for every number of bytes.
///
/// An exact solution of the multiple-choice knapsack problem by dynamic programming over bytes. If
/// the layers have more than 65,536 bytes, they are counted in whole steps, each layer rounded up: a
/// solution never exceeds the budget, and may miss one that needs less than a step for each layer
/// more.
#[derive(Debug)]
pub(super) struct Knapsack {
    step: usize,
    /// The least bytes of all layers.
    least: usize,
    /// The least noise with at most so many steps.
    noise: Vec<f64>,
    /// The choice of each layer, `[layers][steps]`.
    choices: Vec<Vec<u8>>,
    costs: Vec<Vec<Cost>>,
}

impl Knapsack {
    /// Solves for layers that have at least one choice each, at most 255.
    pub(super) fn new(costs: Vec<Vec<Cost>>) -> Self {
        let sum = |of: fn(usize, usize) -> usize| -> usize {
            let of_layer =
                |layer: &Vec<Cost>| layer.iter().map(|cost| cost.bytes).reduce(of).unwrap_or(0);
            costs.iter().map(of_layer).sum()
        };
        let (least, most) = (sum(usize::min), sum(usize::max));
        let step = most.div_ceil(STEPS).max(1);
        let steps = most.div_ceil(step) + costs.len() + 1;
        let mut noise = vec![0.0; steps];
        let mut choices = Vec::with_capacity(costs.len());
        for layer in &costs {
            let (before, mut chosen) = (noise, vec![0; steps]);
            noise = vec![f64::INFINITY; steps];
            for (choice, cost) in layer.iter().enumerate() {
                let width = cost.bytes.div_ceil(step);
                for at in width..steps {
                    let total = before[at - width] + cost.noise;
                    if total < noise[at] {
                        (noise[at], chosen[at]) = (total, choice as u8);
                    }
                }
            }
            choices.push(chosen);
        }
        Self { step, least, noise, choices, costs }
    }

    /// The least bytes of any choice.
    pub(super) const fn least(&self) -> usize {
        self.least
    }

    /// The choice of each layer with the least noise within a number of bytes; none if there is none.
    pub(super) fn within(&self, bytes: usize) -> Option<Vec<usize>> {
        let at = (bytes / self.step).min(self.noise.len() - 1);
        if self.noise[at].is_finite() {
            return Some(self.choice(at));
        }
        // Less than a step for each layer is left: the smallest choices may still fit.
        (bytes >= self.least).then(|| {
            let smallest = |layer: &Vec<Cost>| {
                let costs = layer.iter().enumerate();
                costs.min_by_key(|(_, cost)| cost.bytes).map_or(0, |(choice, _)| choice)
            };
            self.costs.iter().map(smallest).collect()
        })
    }

    fn choice(&self, mut at: usize) -> Vec<usize> {
        let mut choices = vec![0; self.costs.len()];
        for (layer, chosen) in self.choices.iter().enumerate().rev() {
            choices[layer] = chosen[at].into();
            at -= self.costs[layer][choices[layer]].bytes.div_ceil(self.step);
        }
        choices
    }

    /// Choices from few bytes to many, each with less noise than those before it: at most `most` of
    /// them, evenly spread over the logarithm of the noise, with both ends.
    pub(super) fn front(&self, most: usize) -> Vec<Vec<usize>> {
        let first = self.noise.iter().position(|noise| noise.is_finite());
        let Some(first) = first else { return Vec::new() };
        // The places with less noise than the place before.
        let better = |at: &usize| self.noise[*at] < self.noise[at - 1];
        let places: Vec<usize> =
            std::iter::once(first).chain((first + 1..self.noise.len()).filter(better)).collect();
        // Without noise the logarithm has no end: the least noise above zero counts.
        let least = self.noise.iter().copied().filter(|noise| *noise > 0.0);
        let least = least.fold(f64::INFINITY, f64::min);
        let level = |at: usize| self.noise[at].max(least).ln();
        let end = places.len() - 1;
        let (from, to) = (level(first), level(places[end]));
        let mut front: Vec<Vec<usize>> = Vec::new();
        for part in 0..most.max(2) {
            let share = part as f64 / (most.max(2) - 1) as f64;
            let wanted = (to - from).mul_add(share, from);
            // The nearest of the places around.
            let below = places.partition_point(|&at| level(at) > wanted).min(end);
            let above = below.saturating_sub(1);
            let is_above = level(places[above]) - wanted < wanted - level(places[below]);
            let at = if is_above { above } else { below };
            let choice = self.choice(places[at]);
            if front.last() != Some(&choice) {
                front.push(choice);
            }
        }
        front
    }

    /// The bytes of a choice.
    pub(super) fn bytes(&self, choice: &[usize]) -> usize {
        self.costs.iter().zip(choice).map(|(layer, &choice)| layer[choice].bytes).sum()
    }

    /// The noise of a choice.
    pub(super) fn noise(&self, choice: &[usize]) -> f64 {
        self.costs.iter().zip(choice).map(|(layer, &choice)| layer[choice].noise).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs of some layers with some choices each, without any order.
    fn costs(seed: u64, layers: usize, choices: usize, most: u64) -> Vec<Vec<Cost>> {
        let mut state = seed * 2 + 1;
        let mut next = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let mut cost = || Cost { bytes: 1 + next(most) as usize, noise: next(1000) as f64 / 7.0 };
        (0..layers).map(|_| (0..choices).map(|_| cost()).collect()).collect()
    }

    /// The least noise of all choices, one by one.
    fn least_noise(costs: &[Vec<Cost>], bytes: usize) -> Option<f64> {
        let (first, rest) = costs.split_first()?;
        let of_choice = |cost: &Cost| {
            let left = bytes.checked_sub(cost.bytes)?;
            if rest.is_empty() {
                Some(cost.noise)
            } else {
                Some(cost.noise + least_noise(rest, left)?)
            }
        };
        first.iter().filter_map(of_choice).reduce(f64::min)
    }

    #[test]
    fn no_choice_has_less_noise() {
        for seed in 0..30 {
            let costs = costs(seed, 5, 4, 40);
            let knapsack = Knapsack::new(costs.clone());
            for bytes in (0..210).step_by(7) {
                let right = least_noise(&costs, bytes);
                let given = knapsack.within(bytes);
                assert_eq!(given.is_some(), right.is_some(), "{seed} {bytes}");
                if let (Some(given), Some(right)) = (given, right) {
                    assert!(knapsack.bytes(&given) <= bytes);
                    assert!((knapsack.noise(&given) - right).abs() < 1e-9, "{seed} {bytes}");
                }
            }
        }
    }

    #[test]
    fn large_layers_are_within_the_budget_and_near_the_best() {
        for seed in 0..10 {
            let costs = costs(seed, 5, 4, 9_000_000);
            let knapsack = Knapsack::new(costs.clone());
            assert!(knapsack.step > 1);
            for bytes in (knapsack.least()..40_000_000).step_by(3_999_999) {
                let given = knapsack.within(bytes).expect("the smallest fits");
                assert!(knapsack.bytes(&given) <= bytes);
                // With a step for each layer less, the best choice is no better.
                let slack = knapsack.step * costs.len();
                let right = least_noise(&costs, bytes.saturating_sub(slack));
                assert!(right.is_none_or(|right| knapsack.noise(&given) <= right + 1e-9));
            }
            assert_eq!(knapsack.within(knapsack.least() - 1), None);
        }
    }

    #[test]
    fn a_front_loses_noise_with_every_byte() {
        let costs = costs(3, 6, 5, 100);
        let knapsack = Knapsack::new(costs);
        let front = knapsack.front(9);
        assert!(front.len() > 4 && front.len() <= 9);
        let bytes: Vec<usize> = front.iter().map(|choice| knapsack.bytes(choice)).collect();
        let noise: Vec<f64> = front.iter().map(|choice| knapsack.noise(choice)).collect();
        assert!(bytes.is_sorted() && noise.iter().rev().is_sorted(), "{bytes:?} {noise:?}");
        assert_eq!(bytes[0], knapsack.least());
    }

    #[test]
    fn a_front_is_spread_over_the_decibels_of_the_noise() {
        // One layer whose last bytes, nine tenths of all, gain as much as each of the first.
        let choice = |at: i32| Cost {
            bytes: if at == 8 { 900 } else { 10 + 10 * at as usize },
            noise: 10_f64.powi(-at),
        };
        let knapsack = Knapsack::new(vec![(0..9).map(choice).collect()]);
        let front = knapsack.front(5);
        let noise: Vec<f64> = front.iter().map(|choice| knapsack.noise(choice).log10()).collect();
        let rounded: Vec<f64> = noise.iter().map(|power| power.round()).collect();
        assert_eq!(rounded, [0.0, -2.0, -4.0, -6.0, -8.0], "{noise:?}");
    }
}
