//! Samples of a card while a benchmark runs, and their least, mean and greatest values.

use serde_json::{Map, Value, json};

/// What a sample has, in this order; the unit is part of the name.
pub(super) const MEASURES: [&str; 6] = [
    "clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "power_w",
    "utilization_percent",
    "memory_used_mib",
];

/// A value for each of [`MEASURES`] that the driver reports.
pub(super) type Sample = [Option<f64>; MEASURES.len()];

/// The sample with the names of its measures.
pub(super) fn json(sample: &Sample) -> Value {
    let named = MEASURES.into_iter().zip(sample);
    named.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

/// The samples of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// How many samples there are.
    pub(super) count: usize,
    /// The range of each of [`MEASURES`] that a sample had.
    pub(super) ranges: Vec<(&'static str, Range)>,
}

/// The values of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) least: f64,
    pub(super) mean: f64,
    pub(super) most: f64,
}

impl Summary {
    /// `None` without a sample.
    pub(super) fn of(samples: &[Sample]) -> Option<Self> {
        let of_measure = |(index, name): (usize, &'static str)| {
            let values: Vec<f64> = samples.iter().filter_map(|sample| sample[index]).collect();
            Some((name, Range::of(&values)?))
        };
        let ranges: Vec<_> = MEASURES.into_iter().enumerate().filter_map(of_measure).collect();
        (!ranges.is_empty()).then_some(Self { count: samples.len(), ranges })
    }

    pub(super) fn json(&self) -> Value {
        let of = |(name, Range { least, mean, most }): &(&str, Range)| {
            ((*name).to_owned(), json!({ "min": least, "mean": mean, "max": most }))
        };
        let ranges: Map<_, _> = self.ranges.iter().map(of).collect();
        json!({ "samples": self.count, "values": ranges })
    }
}

impl Range {
    fn of(values: &[f64]) -> Option<Self> {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        let count = u32::try_from(values.len()).ok()?;
        Some(Self { least, mean: values.iter().sum::<f64>() / f64::from(count), most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_driver_does_not_report_are_left_out() {
        let sample = |clock, power| [Some(clock), None, None, power, Some(0.0), None];
        let samples =
            [sample(1000.0, Some(50.0)), sample(1600.0, None), sample(1300.0, Some(150.0))];
        let summary = Summary::of(&samples).unwrap();
        assert_eq!(summary.count, 3);
        let names: Vec<_> = summary.ranges.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["clock_mhz", "power_w", "utilization_percent"]);
        assert_eq!(summary.ranges[0].1, Range { least: 1000.0, mean: 1300.0, most: 1600.0 });
        assert_eq!(summary.ranges[1].1, Range { least: 50.0, mean: 100.0, most: 150.0 });
        let json = summary.json();
        assert_eq!(json["values"]["power_w"]["max"], 150.0);
        assert_eq!(json["samples"], 3);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[[None; MEASURES.len()]]), None);
    }

    #[test]
    fn a_sample_has_names_and_nulls() {
        let json = json(&[Some(1200.0), None, Some(40.0), None, None, None]);
        assert_eq!(json["clock_mhz"], 1200.0);
        assert!(json["power_w"].is_null());
        assert_eq!(json.as_object().unwrap().len(), MEASURES.len());
    }
}
