//! Integers of shapes, some of which are multiples of the batch's length, which no file fixes.

use super::constant::Constant;
use super::real::{Batch, Real};

/// An integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Number(i64),
    /// So many times the length of the batch; not 0 times.
    Batches(i64),
}

/// A list of integers, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) values: Vec<Side>,
    /// Whether it is one integer without an axis.
    pub(super) is_scalar: bool,
}

impl Side {
    const fn batches(times: i64) -> Self {
        if times == 0 { Self::Number(0) } else { Self::Batches(times) }
    }

    /// The result of an operator; `None` if it depends on the batch in another way than by a
    /// factor, or has none.
    pub(super) fn of(operator: &str, a: Self, b: Self) -> Option<Self> {
        use Side::{Batches, Number};
        let divided = |a: i64, b: i64| (a.checked_rem(b)? == 0).then(|| a.checked_div(b)).flatten();
        Some(match (operator, a, b) {
            ("Add", Number(a), Number(b)) => Number(a.checked_add(b)?),
            ("Add", Batches(a), Batches(b)) => Self::batches(a.checked_add(b)?),
            ("Sub", Number(a), Number(b)) => Number(a.checked_sub(b)?),
            ("Sub", Batches(a), Batches(b)) => Self::batches(a.checked_sub(b)?),
            ("Mul", Number(a), Number(b)) => Number(a.checked_mul(b)?),
            ("Mul", Batches(a), Number(b)) | ("Mul", Number(b), Batches(a)) => {
                Self::batches(a.checked_mul(b)?)
            }
            ("Div", Number(a), Number(b)) => Number(a.checked_div(b)?),
            ("Div", Batches(a), Number(b)) => Self::batches(divided(a, b)?),
            ("Div", Batches(a), Batches(b)) => Number(divided(a, b)?),
            // Without negative numbers, of which `fmod` has another remainder.
            ("Mod", Number(a @ 0..), Number(b @ 1..)) => Number(a.checked_rem(b)?),
            ("Equal", Number(a), Number(b)) => Number(i64::from(a == b)),
            ("Equal", Batches(a), Batches(b)) => Number(i64::from(a == b)),
            // A batch has one sample at least.
            ("Equal", Batches(1..), Number(..=0)) | ("Equal", Number(..=0), Batches(1..)) => {
                Number(0)
            }
            _ => return None,
        })
    }
}

impl Sides {
    /// A constant of integers along one axis or none.
    pub(super) fn of_constant(constant: &Constant<'_>) -> Option<Self> {
        if constant.shape.len() > 1 {
            return None;
        }
        let values = constant.integers()?.into_iter().map(Side::Number).collect();
        Some(Self { values, is_scalar: constant.shape.is_empty() })
    }

    /// The shape of a tensor.
    pub(super) fn of_real(real: &Real) -> Self {
        let shape = real.shape();
        let side = |axis: usize| match (real.batch.of_sample(axis), real.batch) {
            (Some(axis), _) => Side::Number(shape[axis] as i64),
            (None, Batch::Alone(_)) => Side::Batches(1),
            (None, Batch::Joined(place, _)) => Side::batches(shape[place] as i64),
        };
        Self { values: (0..real.rank()).map(side).collect(), is_scalar: false }
    }

    /// The shape of a constant.
    pub(super) fn of_shape(shape: &[usize]) -> Self {
        let values = shape.iter().map(|&side| Side::Number(side as i64)).collect();
        Self { values, is_scalar: false }
    }

    /// The numbers, if none depends on the batch.
    pub(super) fn numbers(&self) -> Option<Vec<i64>> {
        let number = |side: &Side| match *side {
            Side::Number(number) => Some(number),
            Side::Batches(_) => None,
        };
        self.values.iter().map(number).collect()
    }

    /// The integers at some places, which may be counted from the end.
    pub(super) fn gathered(&self, places: &Self) -> Option<Self> {
        let of = |place: i64| {
            let len = self.values.len() as i64;
            let place = if place < 0 { place.saturating_add(len) } else { place };
            self.values.get(usize::try_from(place).ok()?).copied()
        };
        let values = places.numbers()?.into_iter().map(of).collect::<Option<_>>()?;
        Some(Self { values, is_scalar: places.is_scalar })
    }

    /// An operator of two lists, of which one may be a single integer.
    pub(super) fn combined(
        &self,
        other: &Self,
        of: impl Fn(Side, Side) -> Option<Side>,
    ) -> Option<Self> {
        let (len, is_scalar) = match (&self.values[..], &other.values[..]) {
            ([_], [_]) => (1, self.is_scalar && other.is_scalar),
            ([_], b) => (b.len(), false),
            (a, [_]) => (a.len(), false),
            (a, b) if a.len() == b.len() => (a.len(), false),
            _ => return None,
        };
        let at = |list: &Self, place: usize| list.values[place % list.values.len()];
        let values = (0..len).map(|place| of(at(self, place), at(other, place)));
        Some(Self { values: values.collect::<Option<_>>()?, is_scalar })
    }
}

#[cfg(test)]
mod tests {
    use super::Side::{Batches, Number};
    use super::*;

    #[test]
    fn lengths_of_the_batch_are_kept_as_factors() {
        for (operator, a, b, right) in [
            ("Mul", Batches(1), Number(3), Some(Batches(3))),
            ("Mul", Number(0), Batches(2), Some(Number(0))),
            ("Div", Batches(6), Number(3), Some(Batches(2))),
            ("Div", Batches(6), Number(4), None),
            ("Div", Batches(6), Batches(3), Some(Number(2))),
            ("Div", Number(7), Number(2), Some(Number(3))),
            ("Div", Number(7), Number(0), None),
            ("Div", Number(i64::MIN), Number(-1), None),
            ("Sub", Batches(2), Batches(2), Some(Number(0))),
            ("Add", Batches(1), Number(1), None),
            ("Mod", Number(7), Number(4), Some(Number(3))),
            ("Mod", Number(7), Number(0), None),
            ("Mod", Number(-7), Number(4), None),
            ("Equal", Batches(1), Number(-1), Some(Number(0))),
            ("Equal", Batches(1), Number(8), None),
            ("Equal", Number(4), Number(4), Some(Number(1))),
        ] {
            assert_eq!(Side::of(operator, a, b), right, "{operator} {a:?} {b:?}");
        }
    }

    #[test]
    fn one_integer_is_combined_with_each_of_a_list() {
        let list = Sides::of_shape(&[2, 3]);
        let one = Sides { values: vec![Number(4)], is_scalar: true };
        let product = |a: &Sides, b: &Sides| a.combined(b, |a, b| Side::of("Mul", a, b));
        let right = Sides::of_shape(&[8, 12]);
        assert_eq!(product(&list, &one), Some(right.clone()));
        assert_eq!(product(&one, &list), Some(right));
        assert_eq!(product(&list, &Sides::of_shape(&[1, 2, 3])), None);
        assert!(product(&one, &one).is_some_and(|one| one.is_scalar));
    }
}
