//! Flags of parameters as text, `1` and `0`: in JSON a fifth of a list, which every rank reads of all.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(flags: &[bool], to: S) -> Result<S::Ok, S::Error> {
    let text: String = flags.iter().map(|&flag| if flag { '1' } else { '0' }).collect();
    to.serialize_str(&text)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<bool>, D::Error> {
    let text = String::deserialize(from)?;
    let flag = |byte| match byte {
        b'0' => Ok(false),
        b'1' => Ok(true),
        _ => Err(D::Error::custom("a flag is neither 0 nor 1")),
    };
    text.bytes().map(flag).collect()
}

#[cfg(test)]
mod tests {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Flags(#[serde(with = "super")] Vec<bool>);

    #[test]
    fn flags_are_written_and_read_as_text() {
        for (flags, text) in [(vec![], r#""""#), (vec![true, false, true], r#""101""#)] {
            let flags = Flags(flags);
            assert_eq!(serde_json::to_string(&flags).unwrap(), text);
            assert_eq!(serde_json::from_str::<Flags>(text).unwrap(), flags);
        }
        let error = serde_json::from_str::<Flags>(r#""12""#).unwrap_err().to_string();
        assert!(error.contains("neither 0 nor 1"), "{error}");
    }
}
