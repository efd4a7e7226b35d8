//! Dates and truth values in the fields of a table.

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The mean length of a year of the calendar, in days.
const YEAR: f64 = 365.2425;

/// The days since 1970-01-01 of a date, and a part of a day if it has a time.
///
/// Dates are those of ISO 8601, `2024-02-29`, alone or with a time after `T` or a space:
/// `2024-02-29T23:59:30.5Z`. A time has hours and minutes, and may have seconds and an offset, `Z` or
/// such as `+01:00`, which is subtracted.
pub(super) fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    if !(1..=12).contains(&month) || day == 0 || day > days_of_month(year, month) {
        return None;
    }
    let days = days_before(year, month, day) as f64;
    match time {
        None => Some(days),
        Some(time) => Some(days + seconds(time.trim_start())? / DAY),
    }
}

/// The seconds of a time, less its offset.
fn seconds(text: &str) -> Option<f64> {
    let (time, offset) = match text.find(['Z', '+', '-']) {
        None => (text, 0.0),
        Some(at) => match text.split_at(at) {
            (time, "Z") => (time.trim_end(), 0.0),
            (time, offset) => {
                let (hours, minutes) = match offset[1..].split_once(':') {
                    Some(pair) => pair,
                    None => offset[1..].split_at_checked(2)?,
                };
                let minutes = if minutes.is_empty() { 0 } else { digits(minutes, 2)? };
                let size = 3600.0 * f64::from(digits(hours, 2)?) + 60.0 * f64::from(minutes);
                (time.trim_end(), if offset.starts_with('-') { -size } else { size })
            }
        },
    };
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = match parts.next() {
        None => 0.0,
        Some(second) => {
            let (whole, rest) = second.split_at_checked(2)?;
            let part = match rest.strip_prefix('.') {
                None if rest.is_empty() => 0.0,
                Some(part) if part.bytes().all(|byte| byte.is_ascii_digit()) => {
                    format!("0.{part}").parse().ok()?
                }
                _ => return None,
            };
            // A leap second is the end of its minute.
            Some(digits(whole, 2)?).filter(|second| *second <= 60).map(f64::from)? + part
        }
    };
    let is_time = parts.next().is_none() && hour < 24 && minute < 60;
    is_time.then(|| 3600.0 * f64::from(hour) + 60.0 * f64::from(minute) + second - offset)
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

const fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of_month(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
///
/// # Source
/// Hinnant 2013, "chrono-compatible low-level date algorithms", `days_from_civil`: years begin in March.
fn days_before(year: u32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Sine and cosine of the place of an instant in its year, its week and its day.
pub(super) fn cycles(days: f64) -> [[f32; 2]; 3] {
    // A Thursday; weeks begin on Monday.
    let turns = [days / YEAR, (days + 3.0) / 7.0, days];
    turns.map(|turns| {
        let (sine, cosine) = (turns.rem_euclid(1.0) * std::f64::consts::TAU).sin_cos();
        [sine as f32, cosine as f32]
    })
}

/// The number of a truth value: 1 of `true` and `yes`, 0 of `false` and `no`, in any case.
pub(super) fn truth(text: &[u8]) -> Option<f64> {
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    match () {
        () if is("true") || is("yes") => Some(1.0),
        () if is("false") || is("no") => Some(0.0),
        () => None,
    }
}

/// The same of a column that is named as one, where letters and digits are truth values too.
pub(super) fn short_truth(text: &[u8]) -> Option<f64> {
    match text {
        b"1" | b"t" | b"T" | b"y" | b"Y" => Some(1.0),
        b"0" | b"f" | b"F" | b"n" | b"N" => Some(0.0),
        other => truth(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, expected) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11_016.0),
            ("2000-03-01", 11_017.0),
            ("1900-03-01", -25_508.0),
            ("2024-12-31", 20_088.0),
            ("0001-01-01", -719_162.0),
            ("9999-12-31", 2_932_896.0),
            ("1970-01-02T12:00", 1.5),
            ("1970-01-02 06:00:00", 1.25),
            ("1970-01-01T00:00:43.2", 0.0005),
            ("1970-01-02T01:00+01:00", 1.0),
            ("1970-01-02T00:00:00 -0600", 1.25),
            ("1970-01-01T18:00:00Z", 0.75),
            ("1970-01-01T18:00:00-06", 1.0),
        ] {
            let found = days(text).unwrap_or_else(|| panic!("{text} is a date"));
            assert!((found - expected).abs() < 1e-9, "{text}: {found}");
        }
        // Every day of 800 years, one after the other.
        let mut expected = days("1600-01-01").expect("a date");
        for year in 1600..2400 {
            for month in 1..=12 {
                for day in 1..=days_of_month(year, month) {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    assert_eq!(days(&text), Some(expected), "{text}");
                    expected += 1.0;
                }
            }
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2024",
            "2024-1-1",
            "2024-13-01",
            "2024-00-10",
            "2023-02-29",
            "1900-02-29",
            "2024-04-31",
            "2024-01-00",
            "24-01-01",
            "2024/01/01",
            "01.02.2024",
            "2024-01-01x",
            "2024-01-01T",
            "2024-01-01T24:00",
            "2024-01-01T12:60",
            "2024-01-01T12:00:61",
            "2024-01-01T12:00:1",
            "2024-01-01T12:00:00.x",
            "2024-01-01T12:00+1",
            "2024-01-01-01",
            "+024-01-01",
            "2024-01-01T12:00Zx",
            "2024-01-01T1é:00",
            "2024-01-01T12:00:é",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
    }

    #[test]
    fn cycles_come_back_after_a_year_a_week_and_a_day() {
        let of = |text: &str| cycles(days(text).expect("a date"));
        // A Monday at midnight.
        let [_, week, day] = of("2024-01-01");
        assert_eq!((week, day), ([0.0, 1.0], [0.0, 1.0]));
        let [_, other_week, _] = of("2024-07-08");
        assert!((week[0] - other_week[0]).abs() + (week[1] - other_week[1]).abs() < 1e-5);
        let [_, _, noon] = of("2024-01-01T12:00");
        assert!(noon[0].abs() < 1e-6 && (noon[1] + 1.0).abs() < 1e-6);
        let ([a, ..], [b, ..], [c, ..]) = (of("2019-05-05"), of("2023-05-05"), of("2023-11-04"));
        assert!((a[0] - b[0]).abs() < 0.02 && (a[1] - b[1]).abs() < 0.02);
        assert!((b[0] + c[0]).abs() < 0.02 && (b[1] + c[1]).abs() < 0.02, "half a year later");
    }

    #[test]
    fn truth_values_are_words_in_any_case() {
        for (text, expected) in
            [("TRUE", Some(1.0)), ("no", Some(0.0)), ("Yes", Some(1.0)), ("1", None), ("t", None)]
        {
            assert_eq!(truth(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            (short_truth(b"1"), short_truth(b"n"), short_truth(b"2")),
            (Some(1.0), Some(0.0), None)
        );
    }
}
