//! Numbers of a file that do not depend on the input, as they are or as codes.

use std::borrow::Cow;

use super::error::{ImportError, Read};
use super::message::{MOST_AXES, Tensor};
use crate::network::protobuf::Element;

const ELEMENTS: &str = "1 (float), 2 (uint8), 3 (int8), 6 (int32) or 7 (int64)";

/// Numbers of a type, in little endian.
#[derive(Debug, Clone)]
pub(super) struct Constant<'a> {
    pub(super) shape: Vec<usize>,
    pub(super) element: Element,
    bytes: Cow<'a, [u8]>,
}

/// `(code − zero)·scale`, with one scale, or one for each place along an axis.
#[derive(Debug, Clone)]
pub(super) struct Coded<'a> {
    pub(super) codes: Constant<'a>,
    pub(super) scales: Vec<f32>,
    /// As many as scales.
    pub(super) zeros: Vec<i64>,
    pub(super) axis: usize,
}

/// The product of the sides, if it is small enough for a tensor of a file.
fn numbers(sides: &[usize]) -> Option<usize> {
    sides.iter().try_fold(1_usize, |product, &side| product.checked_mul(side))
}

const fn size(element: Element) -> usize {
    match element {
        Element::U8 | Element::I8 => 1,
        Element::F32 | Element::I32 => 4,
        Element::I64 => 8,
    }
}

impl<'a> Constant<'a> {
    pub(super) fn try_new(tensor: &Tensor<'a>, name: &str) -> Read<Self> {
        let owned = || name.to_owned();
        if tensor.is_external {
            return Err(ImportError::ExternalData { tensor: owned() });
        }
        let element = match tensor.element {
            1 => Element::F32,
            // Truth values are bytes.
            2 | 9 => Element::U8,
            3 => Element::I8,
            6 => Element::I32,
            7 => Element::I64,
            got => {
                let expected = ELEMENTS;
                return Err(ImportError::Element { tensor: owned(), got, expected });
            }
        };
        if tensor.sides.len() > MOST_AXES {
            return Err(ImportError::TooLarge { what: "a constant of more than 8 axes" });
        }
        let sides = tensor.sides.iter().map(|&side| usize::try_from(side));
        let too_large = |_| ImportError::TooLarge { what: "a constant of a negative length" };
        let shape = sides.collect::<Result<Vec<_>, _>>().map_err(too_large)?;
        let integers = tensor.integers.iter();
        let bytes: Cow<'a, [u8]> = match (tensor.raw, element) {
            (Some(raw), _) => Cow::Borrowed(raw),
            (None, Element::F32) => Cow::Owned(tensor.reals.clone()),
            (None, Element::U8 | Element::I8) => integers.map(|&code| code as u8).collect(),
            (None, Element::I32) => {
                integers.flat_map(|&number| (number as i32).to_le_bytes()).collect()
            }
            (None, Element::I64) => integers.flat_map(|number| number.to_le_bytes()).collect(),
        };
        let expected = numbers(&shape).and_then(|numbers| numbers.checked_mul(size(element)));
        let expected = expected.ok_or(ImportError::TooLarge { what: "a constant" })?;
        match bytes.len() {
            got if got == expected => Ok(Self { shape, element, bytes }),
            got => Err(ImportError::Length { tensor: owned(), expected, got }),
        }
    }

    pub(super) fn of_reals(shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { shape: shape.to_vec(), element: Element::F32, bytes }
    }

    pub(super) fn of_integers(values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { shape: vec![values.len()], element: Element::I64, bytes }
    }

    /// The same numbers along other axes.
    pub(super) fn shaped(self, shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), ..self }
    }

    /// Codes of eight bits.
    pub(super) fn of_codes(shape: &[usize], element: Element, codes: Vec<u8>) -> Self {
        Self { shape: shape.to_vec(), element, bytes: codes.into() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / size(self.element)
    }

    /// The numbers, if they are real.
    pub(super) fn reals(&self) -> Option<Vec<f32>> {
        let words = self.bytes.as_chunks::<4>().0.iter();
        (self.element == Element::F32)
            .then(|| words.map(|&word| f32::from_le_bytes(word)).collect())
    }

    /// An integer.
    fn integer(&self, at: usize) -> i64 {
        match self.element {
            Element::U8 => self.bytes[at].into(),
            Element::I8 => i64::from(self.bytes[at] as i8),
            Element::F32 | Element::I32 => {
                i32::from_le_bytes(self.bytes.as_chunks::<4>().0[at]).into()
            }
            Element::I64 => i64::from_le_bytes(self.bytes.as_chunks::<8>().0[at]),
        }
    }

    /// The numbers, if they are integers.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        let is_integer = self.element != Element::F32;
        is_integer.then(|| (0..self.len()).map(|at| self.integer(at)).collect())
    }
}

impl Coded<'_> {
    /// The scale and the zero point of a number.
    fn place(&self, at: usize) -> usize {
        let inner: usize = self.codes.shape.iter().skip(self.axis + 1).product();
        if self.scales.len() == 1 { 0 } else { at / inner.max(1) % self.scales.len() }
    }

    /// The real numbers.
    pub(super) fn reals(&self) -> Vec<f32> {
        let real = |at: usize| {
            let place = self.place(at);
            (self.codes.integer(at) - self.zeros[place]) as f32 * self.scales[place]
        };
        (0..self.codes.len()).map(real).collect()
    }

    /// The codes without their zero points, if they are signed bytes then.
    pub(super) fn signed_bytes(&self) -> Option<Vec<i8>> {
        let byte = |at: usize| {
            let code = self.codes.integer(at).checked_sub(self.zeros[self.place(at)])?;
            i8::try_from(code).ok()
        };
        (0..self.codes.len()).map(byte).collect()
    }
}
