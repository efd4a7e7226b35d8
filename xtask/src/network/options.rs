//! The options of `test-network`: ranks, rate and latency.

/// The options of `test-network`.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) ranks: usize,
    /// As `tc` reads it.
    pub(crate) rate: String,
    pub(crate) gbit: f64,
    /// As `tc` reads it.
    pub(crate) latency: String,
    pub(crate) latency_us: f64,
}

impl Options {
    pub(crate) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            ranks: 2,
            rate: "1gbit".to_owned(),
            gbit: 1.0,
            latency: "1ms".to_owned(),
            latency_us: 1000.0,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--dry-run" => {}
                "--ranks" => {
                    let text = value()?;
                    let ranks = text.parse().ok().filter(|ranks| (2..=64).contains(ranks));
                    options.ranks =
                        ranks.ok_or_else(|| format!("--ranks is `{text}`; it must be 2 to 64"))?;
                }
                "--rate" => {
                    let text = value()?;
                    let units = [("gbit", 1.0), ("mbit", 1e-3), ("kbit", 1e-6)];
                    options.gbit =
                        in_units(text, &units).filter(|gbit| *gbit > 0.0).ok_or_else(|| {
                            format!("--rate is `{text}`; it must be like 1gbit or 100mbit")
                        })?;
                    options.rate.clone_from(text);
                }
                "--latency" => {
                    let text = value()?;
                    let units = [("ms", 1e3), ("us", 1.0)];
                    options.latency_us = in_units(text, &units).ok_or_else(|| {
                        format!("--latency is `{text}`; it must be like 1ms, 50us or 0us")
                    })?;
                    options.latency.clone_from(text);
                }
                other => {
                    return Err(format!("there is no option `{other}`; see `cargo xtask --help`"));
                }
            }
        }
        Ok(options)
    }
}

/// A number that is not negative with one of the units, in the unit whose factor is 1.
fn in_units(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Options, String> {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Options::read(&arguments)
    }

    #[test]
    fn rates_and_latencies_have_units() {
        let options = read(&["--ranks", "4", "--rate", "20mbit", "--latency", "50us"]).unwrap();
        assert_eq!((options.ranks, options.gbit, options.latency_us), (4, 0.02, 50.0));
        assert_eq!((options.rate.as_str(), options.latency.as_str()), ("20mbit", "50us"));
        let options = read(&["--dry-run"]).unwrap();
        assert_eq!((options.ranks, options.gbit, options.latency_us), (2, 1.0, 1000.0));
        for (arguments, words) in [
            (&["--ranks", "1"][..], "2 to 64"),
            (&["--rate", "0gbit"], "1gbit"),
            (&["--rate", "5"], "1gbit"),
            (&["--latency", "-1ms"], "1ms"),
            (&["--latency"], "needs a value"),
            (&["--speed", "1"], "no option `--speed`"),
        ] {
            let message = read(arguments).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
    }
}
