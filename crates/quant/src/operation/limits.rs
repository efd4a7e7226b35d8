//! Functions that are limits of a number, such as `ReLU6` written as a comparison or as a minimum.

use super::function::{Binary, Line, Unary};
use crate::clip::Clip;
use crate::network::Exact;

/// The limits if lines are `min(max(x, low), high)` and no identity.
pub(super) fn clip_of(lines: &[Line]) -> Option<Clip> {
    let mut values: Vec<Option<Piece>> = Vec::with_capacity(lines.len());
    for line in lines {
        values.push(match *line {
            Line::X => Some(Piece::Clip(Clip::IDENTITY)),
            Line::Constant(Exact(value)) => Some(Piece::Constant(value)),
            Line::Unary(Unary::Rectifier, a) => {
                values[a].and_then(|a| a.limited(Binary::Maximum, Piece::Constant(0.0)))
            }
            Line::Binary(operation, [a, b]) => {
                values[a].zip(values[b]).and_then(|(a, b)| a.limited(operation, b))
            }
            Line::Choose(all) => {
                let [condition, yes, no] = all.map(|at| values[at]);
                condition
                    .zip(yes.zip(no))
                    .and_then(|(condition, (yes, no))| condition.choose(yes, no))
            }
            Line::Unary(..) => None,
        });
    }
    match values.pop()?? {
        Piece::Clip(clip) if !clip.is_identity() => Some(clip),
        _ => None,
    }
}

/// The value of a line that a clip is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    Constant(f32),
    Clip(Clip),
    /// 1 from this number on, which may belong to either side, and 0 below.
    From(f32),
    /// 0 from this number on, and 1 below.
    Below(f32),
}

impl Piece {
    const X: Self = Self::Clip(Clip::IDENTITY);

    /// The greater or the smaller of a clip and a number, a comparison of `x` with a number, or its
    /// opposite.
    fn limited(self, operation: Binary, other: Self) -> Option<Self> {
        let limit =
            |clip: Clip, low, high| Clip::try_new(low, high).map(|by| Self::Clip(clip.then(by)));
        match (operation, self, other) {
            (Binary::Maximum, Self::Clip(clip), Self::Constant(low))
            | (Binary::Maximum, Self::Constant(low), Self::Clip(clip)) => {
                limit(clip, low, f32::INFINITY)
            }
            (Binary::Minimum, Self::Clip(clip), Self::Constant(high))
            | (Binary::Minimum, Self::Constant(high), Self::Clip(clip)) => {
                limit(clip, f32::NEG_INFINITY, high)
            }
            (Binary::Greater, Self::X, Self::Constant(at)) => Some(Self::From(at)),
            (Binary::Greater, Self::Constant(at), Self::X) => Some(Self::Below(at)),
            (Binary::Subtract, Self::Constant(1.0), Self::From(at)) => Some(Self::Below(at)),
            (Binary::Subtract, Self::Constant(1.0), Self::Below(at)) => Some(Self::From(at)),
            _ => None,
        }
    }

    /// `yes` where this comparison holds, else `no`: a clip where both sides meet.
    fn choose(self, yes: Self, no: Self) -> Option<Self> {
        let (at, [below, above]) = match self {
            Self::From(at) => (at, [no, yes]),
            Self::Below(at) => (at, [yes, no]),
            Self::Constant(_) | Self::Clip(_) => return None,
        };
        let meets = |clip: Clip, constant: f32| {
            let [low, high] = clip.limits();
            constant == at && low <= at && at <= high
        };
        match (below, above) {
            (Self::Clip(clip), Self::Constant(high)) if meets(clip, high) => {
                Self::Clip(clip).limited(Binary::Minimum, above)
            }
            (Self::Constant(low), Self::Clip(clip)) if meets(clip, low) => {
                Self::Clip(clip).limited(Binary::Maximum, below)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Function;

    #[test]
    fn limits_are_known_in_every_form_and_other_functions_are_no_clip() {
        let (x, number) = (Function::identity(), Function::constant);
        let least = |x: &Function, low| Function::binary(Binary::Maximum, x, &number(low));
        let most = |x: &Function, high| Function::binary(Binary::Minimum, &number(high), x);
        let above = |at| Function::binary(Binary::Greater, &x, &number(at));
        let not = |condition| Function::binary(Binary::Subtract, &number(1.0), &condition);
        let relu = x.then(Unary::Rectifier);
        let from_six = not(Function::binary(Binary::Greater, &number(6.0), &x));
        for (function, limits) in [
            (relu.clone(), [0.0, f32::INFINITY]),
            (most(&least(&x, -1.0), 1.5), [-1.0, 1.5]),
            (least(&most(&x, 1.5), 2.5), [2.5, 2.5]),
            (most(&relu, 6.0), [0.0, 6.0]),
            (Function::choose(&from_six, &number(6.0), &relu), [0.0, 6.0]),
            (Function::choose(&above(0.0), &x, &number(0.0)), [0.0, f32::INFINITY]),
        ] {
            let clip = function.clip().expect("a clip");
            assert_eq!(clip.limits(), limits);
            for at in -40..40 {
                let (value, mut clipped) = (at as f32 / 4.0, [at as f32 / 4.0]);
                clip.apply(&mut clipped);
                assert_eq!(clipped[0], function.of(value), "{value} within {limits:?}");
            }
        }
        let shrunk = Function::choose(&above(0.01), &x, &number(0.0));
        for function in [
            x.clone(),
            number(2.0),
            shrunk.clone(),
            most(&shrunk, 6.0),
            Function::choose(&above(6.0), &number(7.0), &relu),
            Function::choose(&above(-1.0), &number(-1.0), &relu),
            Function::choose(&above(6.0), &x, &number(0.0)),
            Function::binary(Binary::Add, &relu, &relu),
            relu.then(Unary::Round),
        ] {
            assert_eq!(function.clip(), None, "{:?}", function.lines());
        }
    }
}
