//! The attributes of a node, by their names.

use super::error::Read;
use super::importer::Importer;
use super::message::{Attribute, Node};
use super::real::Real;

/// Lengths and places of a file above this are refused: sums and products of a few stay far from an
/// overflow.
const MOST: i64 = 1 << 24;

impl<'a> Node<'a> {
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn integer(&self, name: &str, otherwise: i64) -> i64 {
        self.attribute(name).and_then(|attribute| attribute.integer).unwrap_or(otherwise)
    }

    pub(super) fn real(&self, name: &str, otherwise: f32) -> f32 {
        self.attribute(name).and_then(|attribute| attribute.real).unwrap_or(otherwise)
    }

    pub(super) fn text<'n>(&'n self, name: &str, otherwise: &'n str) -> &'n str {
        let text = self.attribute(name).map(|attribute| attribute.text);
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or(otherwise)
    }

    pub(super) fn integers(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|attribute| attribute.integers.as_slice())
    }

    /// The name of an input; none if it is left out.
    pub(super) fn input(&self, at: usize) -> Option<&'a str> {
        self.inputs.get(at).copied().filter(|name| !name.is_empty())
    }
}

impl Importer<'_> {
    /// A list of lengths with one for each axis, or the same for all.
    pub(super) fn lengths(
        &self,
        node: &Node<'_>,
        name: &str,
        axes: usize,
        otherwise: usize,
    ) -> Read<Vec<usize>> {
        let Some(values) = node.integers(name) else { return Ok(vec![otherwise; axes]) };
        if values.len() != axes {
            return self.refuse("one of its lists of sides has another number of axes");
        }
        values.iter().map(|&value| self.length(value)).collect()
    }

    /// A length or a place.
    pub(super) fn length(&self, value: i64) -> Read<usize> {
        match value {
            0..MOST => Ok(value as usize),
            _ => self.refuse("one of its sides is negative or beyond 16 million"),
        }
    }

    /// An axis of a sample, from one of the file that may be counted from the end.
    pub(super) fn axis(&self, axis: i64, x: &Real) -> Read<usize> {
        match x.batch.of_sample(self.counted(axis, x.rank())?) {
            Some(axis) => Ok(axis),
            None => self.refuse("it is over the batch"),
        }
    }

    /// An axis that may be counted from the end.
    pub(super) fn counted(&self, axis: i64, rank: usize) -> Read<usize> {
        let axis = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        match usize::try_from(axis) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => self.refuse("its input does not have the axis"),
        }
    }
}
