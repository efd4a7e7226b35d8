//! Rates and times in arguments, with the usual units.

/// The longest time of a short message: an hour.
const MOST_SECONDS: f64 = 3600.0;

/// Bytes per second: no network and no storage is slower or faster, and times computed with them are
/// finite.
const LEAST_RATE: f64 = 1.0;
const MOST_RATE: f64 = 1e18;

/// Bytes per second; a number without a unit is in Gbit/s.
pub(crate) fn network_rate(text: &str) -> Result<f64, String> {
    rate(text, "Gbit/s")
}

/// Bytes per second; a number without a unit is in MB/s.
pub(crate) fn storage_rate(text: &str) -> Result<f64, String> {
    rate(text, "MB/s")
}

/// Seconds; a number without a unit is in µs.
pub(crate) fn short_time(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 6] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, unit) = split(text)?;
    let found = UNITS.iter().find(|(name, _)| *name == if unit.is_empty() { "us" } else { unit });
    let (_, factor) = found
        .ok_or_else(|| format!("`{unit}` is no unit of it; write ns, us (or no unit), ms or s"))?;
    let seconds = number * factor;
    match seconds <= MOST_SECONDS {
        true => Ok(seconds),
        false => Err(format!("it must be at most {MOST_SECONDS} s")),
    }
}

fn rate(text: &str, without_unit: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let factor = bytes_per_s(if unit.is_empty() { without_unit } else { unit });
    let factor = factor.ok_or_else(|| {
        format!(
            "`{unit}` is no unit of it; write kbit/s, Mbit/s, Gbit/s, kB/s, MB/s, GB/s or MiB/s; a \
             number without a unit is in {without_unit}"
        )
    })?;
    let rate = number * factor;
    match (LEAST_RATE..=MOST_RATE).contains(&rate) {
        true => Ok(rate),
        false => Err(format!("it must be at least {LEAST_RATE} B/s and at most {MOST_RATE:e} B/s")),
    }
}

/// The bytes per second of a unit: a prefix in either case, and bits (`b`) or bytes (`B`).
fn bytes_per_s(unit: &str) -> Option<f64> {
    const BITS: [&str; 4] = ["bit/s", "bps", "b/s", "bit"];
    const PREFIXES: [(&str, f64); 5] = [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12)];
    const BINARY: [(&str, u32); 4] = [("ki", 10), ("mi", 20), ("gi", 30), ("ti", 40)];
    let bits = BITS.iter().find_map(|name| unit.strip_suffix(name).map(|rest| (rest, 0.125)));
    let bytes = || unit.strip_suffix("B/s").map(|rest| (rest, 1.0));
    let (prefix, of_unit) = bits.or_else(bytes)?;
    let prefix = prefix.to_ascii_lowercase();
    let decimal = PREFIXES.iter().find(|(name, _)| *name == prefix).map(|(_, factor)| *factor);
    let binary =
        || BINARY.iter().find(|(name, _)| *name == prefix).map(|(_, at)| 2_f64.powi(*at as i32));
    Some(of_unit * decimal.or_else(binary)?)
}

/// A positive number, which may be infinite, and the unit after it.
fn split(text: &str) -> Result<(f64, &str), String> {
    let number = text.trim_end_matches(|c: char| c.is_alphabetic() || c == '/').trim_end();
    let unit = text[number.len()..].trim();
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 => Ok((number, unit)),
        Ok(_) => Err("it must be above 0".to_owned()),
        Err(_) => Err("it must begin with a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_usual_units() {
        for (text, expected) in [
            ("10", 1.25e9),
            ("10Gbit/s", 1.25e9),
            ("10 Gbit/s", 1.25e9),
            ("10gbit", 1.25e9),
            ("10Gbps", 1.25e9),
            ("10Gb/s", 1.25e9),
            ("1e4Mbit/s", 1.25e9),
            ("100mbit", 1.25e7),
            ("500kbit/s", 62_500.0),
            ("1.25GB/s", 1.25e9),
            ("125MB/s", 1.25e8),
            ("1MiB/s", 1_048_576.0),
            ("8bit/s", 1.0),
            ("1Tbit/s", 1.25e11),
        ] {
            let read = network_rate(text).unwrap();
            assert!((read - expected).abs() <= 1e-12 * expected, "{text}: {read}");
        }
        assert_eq!(storage_rate("500"), Ok(5e8));
        assert_eq!(storage_rate("2GB/s"), Ok(2e9));
    }

    #[test]
    fn times_have_the_usual_units() {
        for (text, expected) in [
            ("100", 1e-4),
            ("100us", 1e-4),
            ("100µs", 1e-4),
            ("500ns", 5e-7),
            ("1.5 ms", 1.5e-3),
            ("2s", 2.0),
        ] {
            let read = short_time(text).unwrap();
            assert!((read - expected).abs() <= 1e-12 * expected, "{text}: {read}");
        }
    }

    #[test]
    fn other_units_and_numbers_are_refused_with_the_accepted_ones() {
        for text in ["10Gbit/h", "10 apples", "10GB", "10Xbit/s"] {
            let error = network_rate(text).unwrap_err();
            assert!(error.contains("Mbit/s, Gbit/s") && error.contains("is in Gbit/s"), "{error}");
        }
        for text in ["1e400Gbit/s", "1e300", "1e-300"] {
            let error = network_rate(text).unwrap_err();
            assert_eq!(error, "it must be at least 1 B/s and at most 1e18 B/s", "{text}");
        }
        for text in ["1e300us", "1e400", "2h"] {
            assert!(short_time(text).is_err(), "{text}");
        }
        assert_eq!(short_time("1e300us").unwrap_err(), "it must be at most 3600 s");
        assert!(short_time("1min").unwrap_err().contains("ns, us (or no unit), ms or s"));
        for (text, reason) in [("0", "above 0"), ("-1", "above 0"), ("x", "number"), ("", "number")]
        {
            assert!(network_rate(text).unwrap_err().contains(reason), "{text}");
            assert!(short_time(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
