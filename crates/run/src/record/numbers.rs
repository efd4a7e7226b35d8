//! JSON whose numbers are read as the nearest f64 of what is written.

use std::borrow::Cow;

use serde::de::Error as _;
use serde_json::{Error, Number, Value};

/// The start of a text that stands for a number; JSON's writers escape it.
const MARK: char = '\u{1}';

/// Parses a line of JSON.
///
/// `serde_json`'s own conversion of fractions is off by a last bit at times. Its feature
/// `float_roundtrip` would fix that, but rebuild every crate that depends on it, burn included.
pub(super) fn parse(line: &str) -> Result<Value, Error> {
    let mut value = serde_json::from_str(&marked(line))?;
    restore(&mut value)?;
    Ok(value)
}

/// The line with each number that has a fraction or an exponent in quotes, after [`MARK`].
fn marked(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    let (mut text, mut copied, mut at) = (String::new(), 0, 0);
    let mut is_quoted = false;
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            b'"' => is_quoted = !is_quoted,
            // The next character is not the end of the text.
            b'\\' if is_quoted => at += 1,
            b'-' | b'0'..=b'9' if !is_quoted => {
                let is_part =
                    |byte: &u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
                at += bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                let number = &line[start..at];
                if number.contains(['.', 'e', 'E']) {
                    text.push_str(&line[copied..start]);
                    text.push_str(&format!("\"\\u{:04x}{number}\"", u32::from(MARK)));
                    copied = at;
                }
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(line);
    }
    text.push_str(&line[copied..]);
    Cow::Owned(text)
}

fn restore(value: &mut Value) -> Result<(), Error> {
    match value {
        Value::String(text) => {
            let Some(number) = text.strip_prefix(MARK) else { return Ok(()) };
            let number = number.parse().ok().and_then(Number::from_f64);
            *value = Value::Number(number.ok_or_else(|| Error::custom("not a finite number"))?);
            Ok(())
        }
        Value::Array(values) => values.iter_mut().try_for_each(restore),
        Value::Object(fields) => fields.values_mut().try_for_each(restore),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_the_one_that_was_written() {
        let mut state = 1_u64;
        let mut off = 0;
        for _ in 0..20_000 {
            // A linear congruential generator; Knuth, MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = f64::from_bits(state);
            if !number.is_finite() {
                continue;
            }
            let line = format!("{{\"a\":[{}]}}", Value::from(number));
            let found = parse(&line).expect("JSON")["a"][0].as_f64().expect("a number");
            assert_eq!(found.to_bits(), number.to_bits(), "{line}");
            let plain: Value = serde_json::from_str(&line).expect("JSON");
            off += usize::from(plain["a"][0].as_f64() != Some(number));
        }
        assert!(off > 0, "serde_json reads all numbers as they were written: use it");
    }

    #[test]
    fn all_else_is_as_serde_json_reads_it() {
        for line in [
            r#"{"text":"1.5 and \"-2.5e3\" \\","whole":12345678901234567,"b":[true,null,-3],"ü":""}"#,
            "[]",
            "7",
            r#""0.25""#,
        ] {
            assert_eq!(
                parse(line).expect("JSON"),
                serde_json::from_str::<Value>(line).expect("JSON")
            );
        }
        assert_eq!(parse("[1.5,-2e3]").expect("JSON"), serde_json::json!([1.5, -2000.0]));
        for line in ["{\"a\":1.2.3}", "[1e999]", "{\"a\":1.5", "\u{0}{"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
