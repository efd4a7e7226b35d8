//! The fields of a protobuf message, read in place.
//!
//! Source: the encoding that protobuf.dev documents.

use super::error::{ImportError, Read};

/// The content of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Number(u64),
    /// Four bytes, such as of an f32.
    Word([u8; 4]),
    Bytes(&'a [u8]),
    /// Eight bytes, which no field that is read has.
    Long,
}

/// The fields of a message, in order; it ends after an error.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

const fn wrong<T>(what: &'static str) -> Read<T> {
    Err(ImportError::Format { what })
}

/// A number of seven bits in each byte.
fn varint(rest: &mut &[u8]) -> Read<u64> {
    let mut value = 0;
    for place in 0..10 {
        let Some((&first, after)) = rest.split_first() else { return wrong("it ends in a number") };
        *rest = after;
        value |= u64::from(first & 0x7F) << (7 * place);
        if first < 0x80 {
            return Ok(value);
        }
    }
    wrong("a number has more than ten bytes")
}

fn taken<'a>(rest: &mut &'a [u8], len: u64) -> Read<&'a [u8]> {
    let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let Some((taken, after)) = split else { return wrong("it ends in a field") };
    *rest = after;
    Ok(taken)
}

impl<'a> Fields<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn field(&mut self) -> Read<(u64, Content<'a>)> {
        let key = varint(&mut self.rest)?;
        let content = match key & 7 {
            0 => Content::Number(varint(&mut self.rest)?),
            1 => {
                taken(&mut self.rest, 8)?;
                Content::Long
            }
            2 => {
                let len = varint(&mut self.rest)?;
                Content::Bytes(taken(&mut self.rest, len)?)
            }
            5 => {
                let word = taken(&mut self.rest, 4)?;
                Content::Word(word.try_into().expect("four bytes"))
            }
            _ => return wrong("a field has no known type"),
        };
        Ok((key >> 3, content))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Read<(u64, Content<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Content<'a> {
    pub(super) const fn number(self) -> Read<u64> {
        match self {
            Self::Number(number) => Ok(number),
            _ => wrong("a field that must be a number is none"),
        }
    }

    pub(super) const fn bytes(self) -> Read<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => wrong("a field that must have a length has none"),
        }
    }

    pub(super) fn text(self) -> Read<&'a str> {
        std::str::from_utf8(self.bytes()?).or_else(|_| wrong("a name is not UTF-8"))
    }

    /// Adds one integer, or several that are packed.
    pub(super) fn add_integers(self, to: &mut Vec<i64>) -> Read<()> {
        match self {
            Self::Number(number) => to.push(number as i64),
            Self::Bytes(mut rest) => {
                while !rest.is_empty() {
                    to.push(varint(&mut rest)? as i64);
                }
            }
            _ => return wrong("an integer has another type"),
        }
        Ok(())
    }

    /// Adds the bytes of one f32, or of several that are packed.
    pub(super) fn add_reals(self, to: &mut Vec<u8>) -> Read<()> {
        match self {
            Self::Word(word) => to.extend(word),
            Self::Bytes(bytes) if bytes.len().is_multiple_of(4) => to.extend(bytes),
            _ => return wrong("an f32 has another type"),
        }
        Ok(())
    }
}
