//! Policies as text.

use std::fmt;
use std::str::FromStr;

use burn::tensor::FloatDType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use updraft_simd::Products;

use crate::error::PrecisionError;
use crate::policy::Policy;

const NAMED: [(&str, Policy); 5] = [
    ("f32", Policy::F32),
    ("bf16-products", Policy::BF16_PRODUCTS),
    ("bf16-mixed", Policy::BF16_MIXED),
    ("f16-mixed", Policy::F16_MIXED),
    ("bf16", Policy::BF16),
];

/// The end of a policy whose products are in bf16.
const PRODUCTS: &str = ",products=bf16";

const DTYPES: [(&str, FloatDType); 5] = [
    ("f64", FloatDType::F64),
    ("f32", FloatDType::F32),
    ("flex32", FloatDType::Flex32),
    ("f16", FloatDType::F16),
    ("bf16", FloatDType::BF16),
];

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMED.iter().find(|(_, policy)| policy == self) {
            return f.write_str(name);
        }
        let name = |dtype| {
            DTYPES.iter().find(|(_, known)| *known == dtype).map_or("unknown", |(name, _)| name)
        };
        write!(f, "p={},c={},o={}", name(self.param), name(self.compute), name(self.output))?;
        match self.products {
            Products::F32 => Ok(()),
            Products::Bf16 => f.write_str(PRODUCTS),
        }
    }
}

impl FromStr for Policy {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        if let Some((_, policy)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*policy);
        }
        let unknown = || PrecisionError::Unknown { text: text.to_owned() };
        let (dtypes, products) = match text.strip_suffix(PRODUCTS) {
            Some(dtypes) => (dtypes, Products::Bf16),
            None => (text, Products::F32),
        };
        let mut parts = dtypes.split(',');
        let mut dtype = |key: &str| {
            let (found, name) = parts.next()?.split_once('=')?;
            let dtype = DTYPES.iter().find(|(known, _)| *known == name)?.1;
            (found == key).then_some(dtype)
        };
        let policy = Self {
            param: dtype("p").ok_or_else(unknown)?,
            compute: dtype("c").ok_or_else(unknown)?,
            output: dtype("o").ok_or_else(unknown)?,
            products,
        };
        if parts.next().is_some() { Err(unknown()) } else { Ok(policy) }
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_survives_being_printed_then_parsed() {
        for (_, param) in DTYPES {
            for (_, compute) in DTYPES {
                for (_, output) in DTYPES {
                    for products in [Products::F32, Products::Bf16] {
                        let policy = Policy { param, compute, output, products };
                        assert_eq!(policy.to_string().parse(), Ok(policy));
                        let json = serde_json::to_string(&policy).expect("text");
                        assert_eq!(serde_json::from_str::<Policy>(&json).expect("text"), policy);
                    }
                }
            }
        }
    }

    #[test]
    fn the_names_are_the_fields_of_mixed_precision() {
        assert_eq!("p=f32,c=f16,o=f32".parse(), Ok(Policy::F16_MIXED));
        assert_eq!(Policy::BF16.to_string(), "bf16");
        assert_eq!("p=f32,c=f32,o=f32,products=bf16".parse(), Ok(Policy::BF16_PRODUCTS));
    }

    #[test]
    fn what_is_no_policy_is_refused_with_the_choices() {
        for text in
            ["", "fp32", "p=f32", "c=f32,p=f32,o=f32", "p=f32,c=f32,o=f32,", "p=f8,c=f32,o=f32"]
        {
            let message = text.parse::<Policy>().expect_err(text).to_string();
            assert!(message.contains("`bf16-mixed`") && message.contains(text), "{message}");
        }
    }
}
