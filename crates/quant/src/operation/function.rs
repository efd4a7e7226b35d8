//! Functions of one number, as short programs, which become tables of 256 codes.

use serde::{Deserialize, Serialize};

use super::limits::clip_of;
use crate::clip::Clip;
use crate::network::Exact;
use crate::scheme::ActivationScheme;

/// An operation on one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unary {
    /// `max(x, 0)`.
    Rectifier,
    /// `1/(1 + e^−x)`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `e^x`.
    Exponential,
    /// The natural logarithm.
    Logarithm,
    /// The square root.
    SquareRoot,
    /// The error function.
    Erf,
    /// `|x|`.
    Absolute,
    /// `−x`.
    Negative,
    /// `1/x`.
    Reciprocal,
    /// The nearest whole number; halves go to even.
    Round,
}

/// An operation on two numbers; a comparison returns 1 or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a − b`.
    Subtract,
    /// `a·b`.
    Multiply,
    /// `a/b`.
    Divide,
    /// The smaller one.
    Minimum,
    /// The greater one.
    Maximum,
    /// Whether `a > b`.
    Greater,
    /// `a^b`.
    Power,
}

impl Unary {
    pub(crate) fn of(self, x: f64) -> f64 {
        match self {
            // `max` would replace NaN by a number.
            Self::Rectifier => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Exponential => x.exp(),
            Self::Logarithm => x.ln(),
            Self::SquareRoot => x.sqrt(),
            Self::Erf => libm::erf(x),
            Self::Absolute => x.abs(),
            Self::Negative => -x,
            Self::Reciprocal => 1.0 / x,
            Self::Round => x.round_ties_even(),
        }
    }
}

impl Binary {
    pub(crate) fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Minimum => a.min(b),
            Self::Maximum => a.max(b),
            Self::Greater => f64::from(u8::from(a > b)),
            Self::Power => a.powf(b),
        }
    }
}

/// One line of a program; operands are earlier lines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The argument.
    X,
    Constant(Exact<f32>),
    Unary(Unary, usize),
    Binary(Binary, [usize; 2]),
    /// The second where the first is not 0, else the third.
    Choose([usize; 3]),
}

/// A function of one number, made of elementary ones; computed in f64.
///
/// ```
/// use updraft_quant::{Binary, Function, Unary};
///
/// // x·σ(x).
/// let x = Function::identity();
/// let silu = Function::binary(Binary::Multiply, &x, &x.then(Unary::Sigmoid));
/// assert!((silu.of(1.0) - 0.731_058_6).abs() < 1e-6);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Line>", into = "Vec<Line>")]
pub struct Function {
    /// The last line is the value.
    lines: Vec<Line>,
}

impl Function {
    /// The most lines of a program; a longer captured expression is not an activation.
    pub(crate) const MOST_LINES: usize = 256;

    /// The identity function.
    #[must_use]
    pub fn identity() -> Self {
        Self { lines: vec![Line::X] }
    }

    /// A constant function.
    #[must_use]
    pub fn constant(value: f32) -> Self {
        Self { lines: vec![Line::Constant(Exact(value))] }
    }

    /// `operation(self(x))`.
    #[must_use]
    pub fn then(&self, operation: Unary) -> Self {
        let mut lines = self.lines.clone();
        lines.push(Line::Unary(operation, self.lines.len() - 1));
        Self { lines }
    }

    /// `operation(a(x), b(x))`.
    #[must_use]
    pub fn binary(operation: Binary, a: &Self, b: &Self) -> Self {
        let mut lines = a.lines.clone();
        let b = append(&mut lines, b);
        lines.push(Line::Binary(operation, [a.lines.len() - 1, b]));
        Self { lines }
    }

    /// `yes(x)` where `condition(x)` is not 0, else `no(x)`.
    #[must_use]
    pub fn choose(condition: &Self, yes: &Self, no: &Self) -> Self {
        let mut lines = condition.lines.clone();
        let yes = append(&mut lines, yes);
        let no = append(&mut lines, no);
        lines.push(Line::Choose([condition.lines.len() - 1, yes, no]));
        Self { lines }
    }

    /// The function's value.
    #[must_use]
    pub fn of(&self, x: f32) -> f32 {
        self.of_within(x, &mut Vec::new())
    }

    /// The function's value, computed in existing memory.
    pub(crate) fn of_within(&self, x: f32, values: &mut Vec<f64>) -> f32 {
        values.clear();
        for line in &self.lines {
            values.push(match *line {
                Line::X => f64::from(x),
                Line::Constant(Exact(value)) => f64::from(value),
                Line::Unary(operation, a) => operation.of(values[a]),
                Line::Binary(operation, [a, b]) => operation.of(values[a], values[b]),
                Line::Choose([condition, yes, no]) => {
                    values[if values[condition] == 0.0 { no } else { yes }]
                }
            });
        }
        values[values.len() - 1] as f32
    }

    /// The range outside of which the function has the value of the nearer end, with infinite ends
    /// where it has none: `[0, 6]` of a rectifier that is cut at 6.
    ///
    /// Found by values at points 1/16 apart up to 128 and at powers of two, which are the ends: a
    /// function that varies only between two of them, or beyond 128, has another range.
    pub(crate) fn live_range(&self) -> [f32; 2] {
        let powers = (7..128).map(|power| 2.0_f32.powi(power));
        let near = (-128 * 16..=128 * 16).map(|at| at as f32 / 16.0);
        let mut points: Vec<f32> = powers.clone().rev().map(|power| -power).chain(near).collect();
        points.extend(powers);
        let mut space = Vec::new();
        let values: Vec<f32> =
            points.iter().map(|&point| self.of_within(point, &mut space)).collect();
        let last = values.len() - 1;
        // Not where a value overflows.
        let is_end = |value: f32, end: usize| value.is_finite() && value == values[end];
        let below = values.iter().take_while(|&&value| is_end(value, 0)).count();
        if below > last {
            return [f32::NEG_INFINITY, f32::INFINITY];
        }
        let above = values.iter().rev().take_while(|&&value| is_end(value, last)).count();
        [
            if below > 1 { points[below - 1] } else { f32::NEG_INFINITY },
            if above > 1 { points[values.len() - above] } else { f32::INFINITY },
        ]
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// `[a, b]` if the function is `a·x + b`.
    pub(crate) fn line(&self) -> Option<[f64; 2]> {
        let mut values: Vec<Option<[f64; 2]>> = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            values.push(match *line {
                Line::X => Some([1.0, 0.0]),
                Line::Constant(Exact(value)) => Some([0.0, f64::from(value)]),
                Line::Unary(Unary::Negative, a) => values[a].map(|[a, b]| [-a, -b]),
                Line::Binary(operation, [a, b]) => {
                    let both = values[a].zip(values[b]);
                    both.and_then(|([a, b], [c, d])| match operation {
                        Binary::Add => Some([a + c, b + d]),
                        Binary::Subtract => Some([a - c, b - d]),
                        Binary::Multiply if a == 0.0 => Some([b * c, b * d]),
                        Binary::Multiply if c == 0.0 => Some([a * d, b * d]),
                        Binary::Divide if c == 0.0 => Some([a / d, b / d]),
                        _ => None,
                    })
                }
                Line::Unary(..) | Line::Choose(_) => None,
            });
        }
        values[values.len() - 1].filter(|line| line.iter().all(|number| number.is_finite()))
    }

    /// The function before its last lines, and a scheme, if these round to the codes of the scheme
    /// and back: `(round(clamp(x/s − l, 0, 255)) + l)·s`, as `updraft_conv::fake_quantize` does by
    /// burn's operations.
    #[cfg_attr(not(feature = "burn"), expect(dead_code, reason = "for networks out of modules"))]
    pub(crate) fn fake_quantization(&self) -> Option<(Self, ActivationScheme)> {
        let binary = |at: usize, wanted: Binary| match self.lines[at] {
            Line::Binary(operation, [a, b]) if operation == wanted => match self.lines[b] {
                Line::Constant(Exact(value)) => Some((a, value)),
                _ => None,
            },
            _ => None,
        };
        let (sum, scale) = binary(self.lines.len() - 1, Binary::Multiply)?;
        let (rounded, lowest) = binary(sum, Binary::Add)?;
        let Line::Unary(Unary::Round, clipped) = self.lines[rounded] else { return None };
        let (above, most) = binary(clipped, Binary::Minimum)?;
        let (shifted, least) = binary(above, Binary::Maximum)?;
        let (divided, subtracted) = binary(shifted, Binary::Subtract)?;
        let (x, divisor) = binary(divided, Binary::Divide)?;
        let is_whole = (-255.0..=0.0).contains(&lowest) && lowest.fract() == 0.0;
        let fits = divisor == scale && subtracted == lowest && [least, most] == [0.0, 255.0];
        if !(is_whole && fits) {
            return None;
        }
        let scheme = ActivationScheme::try_new(scale, -lowest as u8).ok()?;
        Some((Self { lines: self.lines[..=x].to_vec() }, scheme))
    }

    /// Whether the function is the identity.
    #[cfg_attr(not(feature = "burn"), expect(dead_code, reason = "for networks out of modules"))]
    pub(crate) fn is_identity(&self) -> bool {
        self.lines == [Line::X]
    }

    /// The limits if the function is `min(max(x, low), high)` and no identity.
    pub(crate) fn clip(&self) -> Option<Clip> {
        clip_of(&self.lines)
    }
}

/// A program from a file: every operand is an earlier line, and there is a line.
impl TryFrom<Vec<Line>> for Function {
    type Error = &'static str;

    fn try_from(lines: Vec<Line>) -> Result<Self, Self::Error> {
        let is_earlier = |(index, line): (usize, &Line)| match line {
            Line::X | Line::Constant(_) => true,
            Line::Unary(_, a) => *a < index,
            Line::Binary(_, both) => both.iter().all(|&operand| operand < index),
            Line::Choose(all) => all.iter().all(|&operand| operand < index),
        };
        let is_whole = !lines.is_empty()
            && lines.len() <= Self::MOST_LINES
            && lines.iter().enumerate().all(is_earlier);
        is_whole.then_some(Self { lines }).ok_or("a function's lines must read earlier ones")
    }
}

impl From<Function> for Vec<Line> {
    fn from(function: Function) -> Self {
        function.lines
    }
}

/// Adds a program to others; returns the line of its value. A common beginning is stored once.
fn append(lines: &mut Vec<Line>, other: &Function) -> usize {
    let alike = lines.iter().zip(&other.lines).take_while(|(a, b)| a == b).count();
    let moved = lines.len() - alike;
    let place = |operand: usize| if operand < alike { operand } else { operand + moved };
    lines.extend(other.lines[alike..].iter().map(|line| match *line {
        Line::X | Line::Constant(_) => *line,
        Line::Unary(operation, a) => Line::Unary(operation, place(a)),
        Line::Binary(operation, both) => Line::Binary(operation, both.map(place)),
        Line::Choose(all) => Line::Choose(all.map(place)),
    }));
    place(other.lines.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_range_ends_where_a_function_is_constant() {
        let x = Function::identity();
        let cut = |x: &Function, low: f32, high: f32| {
            let low = Function::binary(Binary::Maximum, x, &Function::constant(low));
            Function::binary(Binary::Minimum, &low, &Function::constant(high))
        };
        assert_eq!(cut(&x, 0.0, 6.0).live_range(), [0.0, 6.0]);
        let gate = cut(&Function::binary(Binary::Add, &x, &Function::constant(3.0)), 0.0, 6.0);
        let hard_swish = Function::binary(Binary::Multiply, &x, &gate);
        assert_eq!(hard_swish.live_range(), [-3.0, f32::INFINITY]);
        // Between two of the points.
        let [low, high] = cut(&x, -0.03, 0.03).live_range();
        assert!((-0.1..-0.03).contains(&low) && (0.03..0.1).contains(&high), "{low} {high}");
        let everywhere = [f32::NEG_INFINITY, f32::INFINITY];
        let constant = cut(&x, 0.0, 0.0);
        for function in [constant, x.clone(), x.then(Unary::Absolute), x.then(Unary::Logarithm)] {
            assert_eq!(function.live_range(), everywhere);
        }
    }

    #[test]
    fn programs_are_the_functions_they_are_made_of() {
        let x = Function::identity();
        let elu = Function::choose(
            &Function::binary(Binary::Greater, &x, &Function::constant(0.0)),
            &x,
            &Function::binary(
                Binary::Subtract,
                &x.then(Unary::Exponential),
                &Function::constant(1.0),
            ),
        );
        for value in [-3.0, -0.5, 0.0, 0.25, 7.0_f32] {
            let right = if value > 0.0 { value } else { value.exp_m1() };
            assert!((elu.of(value) - right).abs() < 1e-6, "{value}");
        }
        let square = Function::binary(Binary::Multiply, &elu, &elu);
        assert!((square.of(-1.0) - 0.399_576_4).abs() < 1e-6);
        assert!(square.lines().len() < 2 * elu.lines().len(), "what is alike is kept once");
    }

    #[test]
    fn a_line_is_known_as_one_and_a_curve_is_not() {
        let x = Function::identity();
        let line = Function::binary(Binary::Multiply, &Function::constant(3.0), &x);
        let line = Function::binary(Binary::Add, &line, &Function::constant(-1.0));
        assert_eq!(line.line(), Some([3.0, -1.0]));
        let both = Function::binary(Binary::Subtract, &line, &x);
        assert_eq!(both.line(), Some([2.0, -1.0]));
        assert_eq!(Function::binary(Binary::Multiply, &line, &x).line(), None);
        assert_eq!(x.then(Unary::Tanh).line(), None);
        assert_eq!(x.then(Unary::Rectifier).clip(), Some(Clip::RECTIFIER));
        assert_eq!(line.clip(), None);
    }

    #[test]
    fn a_program_that_reads_ahead_is_none() {
        assert!(Function::try_from(vec![]).is_err());
        assert!(Function::try_from(vec![Line::Unary(Unary::Tanh, 0)]).is_err());
        assert!(Function::try_from(vec![Line::X, Line::Choose([0, 1, 0])]).is_err());
        assert!(Function::try_from(vec![Line::X; 257]).is_err());
        assert!(Function::try_from(vec![Line::X]).is_ok());
    }
}
