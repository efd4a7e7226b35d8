//! IDX files, the format of MNIST.

use std::path::Path;

use crate::error::{DataError, FormatError};
use crate::source::inflate::read_whole;

/// An array of an IDX file.
#[derive(Debug, Clone, PartialEq)]
pub struct IdxArray {
    /// The length of each axis, the samples' first.
    pub shape: Vec<usize>,
    /// The values, the last axis fastest.
    pub values: IdxValues,
}

/// The values of an IDX file, in their stored type.
#[derive(Debug, Clone, PartialEq)]
pub enum IdxValues {
    /// Unsigned bytes, as in MNIST.
    U8(Vec<u8>),
    /// Signed bytes.
    I8(Vec<i8>),
    /// 16-bit integers.
    I16(Vec<i16>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 32-bit floating point.
    F32(Vec<f32>),
    /// 64-bit floating point.
    F64(Vec<f64>),
}

impl IdxArray {
    /// The largest number of bytes that [`read`](Self::read) keeps in memory: 4 GiB.
    pub const MEMORY_LIMIT: u64 = 4 << 30;

    /// Reads a file, also a gzipped one, of at most [`MEMORY_LIMIT`](Self::MEMORY_LIMIT) bytes.
    ///
    /// # Errors
    /// [`DataError::Open`], [`DataError::FileLimit`], [`DataError::Inflate`] and
    /// [`DataError::InflatedTooLarge`] for a file that cannot be read, [`DataError::Format`] for
    /// one that is not an IDX file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let bytes = read_whole(path, Self::MEMORY_LIMIT)?;
        Self::parse(&bytes).map_err(|cause| DataError::Format { path: path.to_owned(), cause })
    }

    /// Parses the bytes of a file; allocates exactly the memory of the values.
    ///
    /// # Errors
    /// [`FormatError::Magic`] or [`FormatError::Length`].
    ///
    /// # Source
    /// Y. Le Cun, C. Cortes, C. Burges, "The MNIST database", section "the IDX file format".
    ///
    /// # Example
    /// ```
    /// use updraft_data::{IdxArray, IdxValues};
    ///
    /// let bytes = [0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9];
    /// let array = IdxArray::parse(&bytes)?;
    /// assert_eq!(array.shape, [1, 3]);
    /// assert_eq!(array.values, IdxValues::U8(vec![7, 8, 9]));
    /// # Ok::<(), updraft_data::FormatError>(())
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let magic = || FormatError::Magic {
            expected: "IDX: 00 00, a type from 08 to 0e, the number of axes",
            start: bytes[..bytes.len().min(8)].to_vec(),
        };
        let (&[0, 0, code, axes], rest) = bytes.split_first_chunk().ok_or_else(magic)? else {
            return Err(magic());
        };
        let width = match code {
            0x08 | 0x09 => 1,
            0x0B => 2,
            0x0C | 0x0D => 4,
            0x0E => 8,
            _ => return Err(magic()),
        };
        let (lengths, _) = rest.as_chunks::<4>();
        let lengths = lengths.get(..usize::from(axes)).ok_or(FormatError::Length {
            expected: 4 + 4 * u128::from(axes),
            got: bytes.len() as u64,
        })?;
        let shape: Vec<usize> =
            lengths.iter().map(|&length| u32::from_be_bytes(length) as usize).collect();
        let header = 4 + 4 * shape.len();
        let count =
            shape.iter().fold(1_u128, |count, &length| count.saturating_mul(length as u128));
        let expected = count.saturating_mul(width).saturating_add(header as u128);
        if expected != bytes.len() as u128 {
            return Err(FormatError::Length { expected, got: bytes.len() as u64 });
        }
        let body = &bytes[header..];
        let values = match code {
            0x08 => IdxValues::U8(body.to_vec()),
            0x09 => IdxValues::I8(body.iter().map(|byte| byte.cast_signed()).collect()),
            0x0B => IdxValues::I16(numbers(body, i16::from_be_bytes)),
            0x0C => IdxValues::I32(numbers(body, i32::from_be_bytes)),
            0x0D => IdxValues::F32(numbers(body, f32::from_be_bytes)),
            _ => IdxValues::F64(numbers(body, f64::from_be_bytes)),
        };
        Ok(Self { shape, values })
    }
}

fn numbers<T, const N: usize>(body: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    body.as_chunks::<N>().0.iter().map(|&bytes| number(bytes)).collect()
}

impl IdxValues {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::U8(_) => "unsigned bytes",
            Self::I8(_) => "signed bytes",
            Self::I16(_) => "16-bit integers",
            Self::I32(_) => "32-bit integers",
            Self::F32(_) => "32-bit floating point",
            Self::F64(_) => "64-bit floating point",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(code: u8, shape: &[u32], body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, code, shape.len() as u8];
        bytes.extend(shape.iter().flat_map(|length| length.to_be_bytes()));
        bytes.extend(body);
        bytes
    }

    #[test]
    fn every_type_is_read_from_its_big_end() {
        let cases = [
            (0x08, vec![1, 255], IdxValues::U8(vec![1, 255])),
            (0x09, vec![1, 255], IdxValues::I8(vec![1, -1])),
            (0x0B, vec![1, 2, 255, 255], IdxValues::I16(vec![258, -1])),
            (0x0C, vec![0, 0, 1, 0, 255, 255, 255, 254], IdxValues::I32(vec![256, -2])),
            (0x0D, vec![0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0], IdxValues::F32(vec![1.0, -2.0])),
        ];
        for (code, body, values) in cases {
            let array = IdxArray::parse(&file(code, &[2], &body)).unwrap();
            assert_eq!(array, IdxArray { shape: vec![2], values });
        }
        let body: Vec<u8> = 0.5_f64.to_be_bytes().into();
        let array = IdxArray::parse(&file(0x0E, &[1, 1], &body)).unwrap();
        assert_eq!(array.values, IdxValues::F64(vec![0.5]));
    }

    #[test]
    fn a_header_that_claims_more_than_there_is_allocates_nothing() {
        let claims = file(0x0E, &[u32::MAX; 255], &[]);
        assert!(matches!(IdxArray::parse(&claims), Err(FormatError::Length { .. })));
        let whole = file(0x08, &[2, 3], &[1, 2, 3, 4, 5, 6]);
        for cut in 0..whole.len() {
            assert!(IdxArray::parse(&whole[..cut]).is_err(), "{cut}");
        }
        let long = [whole.as_slice(), &[0]].concat();
        assert_eq!(IdxArray::parse(&long).unwrap_err().to_string(), "expected 18 bytes, got 19");
        let wrong = IdxArray::parse(b"\x89PNG....").unwrap_err();
        assert!(wrong.to_string().contains("starts with 89 50 4e 47"), "{wrong}");
    }
}
