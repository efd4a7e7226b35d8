//! Constants that are computed from constants and from shapes, while the file is read.

use std::rc::Rc;

use super::constant::Constant;
use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::{MOST_AXES, Node};
use super::sides::{Side, Sides};
use crate::operation::Binary;

const NOT_KNOWN: &str = "a length depends on the batch by more than a factor, or the operation is \
                         not known for constants; simplify the model, such as with \
                         `onnxruntime.quantization.shape_inference.quant_pre_process`";

/// An input that is known when the file is read.
enum Known {
    Sides(Sides),
    Reals(Vec<usize>, Vec<f32>),
}

impl<'a> Importer<'a> {
    /// `Shape`, of which a part may be taken.
    pub(super) fn shape_of(&mut self, node: &Node<'a>) -> Read<()> {
        let sides = match self.meaning(node, 0)? {
            Meaning::Real(real) | Meaning::Codes(real, ..) => Sides::of_real(&real),
            Meaning::Constant(constant) => Sides::of_shape(&constant.shape),
            Meaning::Coded(coded) => Sides::of_shape(&coded.codes.shape),
            Meaning::Sides(sides) if sides.is_scalar => Sides::of_shape(&[]),
            Meaning::Sides(sides) => Sides::of_shape(&[sides.values.len()]),
        };
        let rank = sides.values.len() as i64;
        let place = |name: &str, otherwise: i64| {
            let place = node.integer(name, otherwise);
            let place = if place < 0 { place.saturating_add(rank) } else { place };
            place.clamp(0, rank) as usize
        };
        let (first, end) = (place("start", 0), place("end", rank));
        let values = sides.values.get(first..end).unwrap_or_default().to_vec();
        self.set_sides(node, Sides { values, is_scalar: false })
    }

    /// Computes the output of a node all of whose inputs are known; `false` if it is another node.
    pub(super) fn folded(&mut self, node: &Node<'a>) -> Read<bool> {
        if !is_foldable(node.operation) {
            return Ok(false);
        }
        let mut meanings = Vec::new();
        for at in 0..node.inputs.len() {
            let Some(name) = node.input(at) else { return Ok(false) };
            match self.meaning_of(name)? {
                Meaning::Real(_) | Meaning::Codes(..) => return Ok(false),
                meaning => meanings.push(meaning),
            }
        }
        let mut inputs = Vec::new();
        for meaning in meanings {
            let known = match meaning {
                Meaning::Real(_) | Meaning::Codes(..) => return Ok(false),
                Meaning::Sides(sides) => {
                    self.add_numbers(4 * sides.values.len())?;
                    Known::Sides(sides.as_ref().clone())
                }
                Meaning::Constant(constant) => {
                    self.add_numbers(constant.len().saturating_mul(4))?;
                    match (constant.reals(), Sides::of_constant(&constant)) {
                        (Some(values), _) => Known::Reals(constant.shape.clone(), values),
                        (None, Some(sides)) => Known::Sides(sides),
                        (None, None) => return Ok(false),
                    }
                }
                Meaning::Coded(coded) => {
                    self.add_numbers(coded.codes.len().saturating_mul(4))?;
                    Known::Reals(coded.codes.shape.clone(), coded.reals())
                }
            };
            inputs.push(known);
        }
        match self.known(node, &inputs)? {
            Some(Known::Sides(sides)) => self.set_sides(node, sides)?,
            Some(Known::Reals(shape, values)) => {
                let constant = Constant::of_reals(&shape, &values);
                self.set(node, Meaning::Constant(Rc::new(constant)))?;
            }
            None => return self.refuse(NOT_KNOWN),
        }
        Ok(true)
    }

    /// Sets the output of a node; integers without the batch are a constant.
    fn set_sides(&mut self, node: &Node<'a>, sides: Sides) -> Read<()> {
        self.add_numbers(4 * sides.values.len())?;
        let meaning = match sides.numbers() {
            Some(numbers) if sides.is_scalar => {
                Meaning::Constant(Rc::new(Constant::of_integers(&numbers).shaped(&[])))
            }
            Some(numbers) => Meaning::Constant(Rc::new(Constant::of_integers(&numbers))),
            None => Meaning::Sides(Rc::new(sides)),
        };
        self.set(node, meaning)
    }

    fn known(&mut self, node: &Node<'a>, inputs: &[Known]) -> Read<Option<Known>> {
        let operation = node.operation;
        Ok(match inputs {
            [Known::Sides(x), rest @ ..] => match (operation, rest) {
                ("Gather", [Known::Sides(places)]) if !x.is_scalar => {
                    self.check_first(node)?;
                    x.gathered(places).map(Known::Sides)
                }
                ("Slice", rest) if !x.is_scalar => self.sliced_sides(x, rest)?,
                ("Concat", rest) => {
                    self.check_first(node)?;
                    joined(x, rest)
                }
                ("Squeeze", _) if x.values.len() == 1 => Some(scalar(x, true)),
                ("Unsqueeze", [Known::Sides(axes)]) if x.is_scalar && axes.values.len() == 1 => {
                    Some(scalar(x, false))
                }
                ("Reshape", [Known::Sides(target)]) => match &target.values[..] {
                    [] if x.values.len() == 1 => Some(scalar(x, true)),
                    [Side::Number(-1)] => Some(scalar(x, false)),
                    &[Side::Number(len)] if len == x.values.len() as i64 => Some(scalar(x, false)),
                    _ => None,
                },
                ("Cast", []) => converted(node, x),
                ("ConstantOfShape", []) => self.filled(node, x)?,
                ("Where", [Known::Sides(a), Known::Sides(b)]) => chosen(x, a, b),
                ("Add" | "Sub" | "Mul" | "Div" | "Mod" | "Equal", [Known::Sides(b)]) => {
                    x.combined(b, |a, b| Side::of(operation, a, b)).map(Known::Sides)
                }
                _ => None,
            },
            [Known::Reals(shape, x), rest @ ..] => match (operation, rest) {
                ("Squeeze" | "Unsqueeze" | "Reshape", [Known::Sides(list)]) => {
                    self.new_shape(operation, shape, list).map(|to| Known::Reals(to, x.clone()))
                }
                ("Expand", [Known::Sides(target)]) => {
                    is_of_batch(shape, target).then(|| Known::Reals(shape.clone(), x.clone()))
                }
                ("Cast", []) => of_reals(node, shape, x),
                (_, []) => by_number(operation).map(|of| {
                    let values = x.iter().map(|&x| of(f64::from(x)) as f32);
                    Known::Reals(shape.clone(), values.collect())
                }),
                (_, [Known::Reals(other, b)]) => of_both(operation, (shape, x), (other, b)),
                _ => None,
            },
            [] => None,
        })
    }

    /// Checks that a node is along the only axis of a list.
    fn check_first(&self, node: &Node<'a>) -> Read<()> {
        match node.integer("axis", 0) {
            0 | -1 => Ok(()),
            _ => self.refuse("its input does not have the axis"),
        }
    }

    fn sliced_sides(&self, x: &Sides, rest: &[Known]) -> Read<Option<Known>> {
        let mut ends = Vec::new();
        for known in rest {
            let Known::Sides(list) = known else { return Ok(None) };
            match list.numbers().as_deref() {
                Some(&[number]) => ends.push(number),
                _ => return Ok(None),
            }
        }
        let (first, end, axis, step) = match ends[..] {
            [first, end] => (first, end, 0, 1),
            [first, end, axis] => (first, end, axis, 1),
            [first, end, axis, step] => (first, end, axis, step),
            _ => return Ok(None),
        };
        if !matches!(axis, 0 | -1) {
            return self.refuse("its input does not have the axis");
        }
        let [first, len, step] = self.range(x.values.len(), [first, end, step])?;
        let values = x.values.iter().skip(first).step_by(step).take(len).copied().collect();
        Ok(Some(Known::Sides(Sides { values, is_scalar: false })))
    }

    /// The first place, the number of places and their distance, as `Slice` defines them.
    pub(super) fn range(&self, len: usize, [first, end, step]: [i64; 3]) -> Read<[usize; 3]> {
        let Some(step) = usize::try_from(step).ok().filter(|&step| step > 0) else {
            return self.refuse("a step is 0 or negative; steps from 1 on can be used");
        };
        let place = |place: i64| {
            let place = if place < 0 { place.saturating_add(len as i64) } else { place };
            place.clamp(0, len as i64) as usize
        };
        let (first, end) = (place(first), place(end));
        let count = end.saturating_sub(first).div_ceil(step);
        // With a single place a step of any size is one of 1.
        Ok([first, count, if count > 1 { step } else { 1 }])
    }

    /// Equal numbers.
    fn filled(&mut self, node: &Node<'a>, shape: &Sides) -> Read<Option<Known>> {
        let sides = shape.numbers().unwrap_or_default();
        let sides = sides.iter().map(|&side| self.length(side)).collect::<Read<Vec<_>>>()?;
        let count = sides.iter().try_fold(1_usize, |count, &side| count.checked_mul(side));
        let is_known = shape.numbers().is_some() && sides.len() <= MOST_AXES;
        let Some(count) = count.filter(|_| is_known) else { return Ok(None) };
        self.add_numbers(count.saturating_mul(4))?;
        let value = match node.attribute("value").and_then(|value| value.tensor.as_deref()) {
            Some(tensor) => Constant::try_new(tensor, "value")?,
            None => Constant::of_reals(&[1], &[0.0]),
        };
        Ok(match (value.reals().as_deref(), value.integers().as_deref()) {
            (Some(&[value]), _) => Some(Known::Reals(sides, vec![value; count])),
            (_, Some(&[value])) if sides.len() < 2 => {
                let values = vec![Side::Number(value); count];
                Some(Known::Sides(Sides { values, is_scalar: sides.is_empty() }))
            }
            _ => None,
        })
    }

    /// The shape of a constant with other axes.
    fn new_shape(&self, operation: &str, shape: &[usize], list: &Sides) -> Option<Vec<usize>> {
        let list = list.numbers().filter(|list| list.len() <= MOST_AXES)?;
        let count: usize = shape.iter().product();
        if operation == "Reshape" {
            let side = |(axis, &side): (usize, &i64)| match side {
                -1 => Some(1),
                0 => shape.get(axis).copied(),
                side => usize::try_from(side).ok(),
            };
            let mut to = list.iter().enumerate().map(side).collect::<Option<Vec<_>>>()?;
            let known = to.iter().try_fold(1_usize, |known, &side| known.checked_mul(side))?;
            let mut unknown = list.iter().enumerate().filter(|&(_, &side)| side == -1);
            if let Some((axis, _)) = unknown.next() {
                to[axis] = count.checked_div(known)?;
            }
            let all = to.iter().try_fold(1_usize, |all, &side| all.checked_mul(side))?;
            return (unknown.next().is_none() && all == count).then_some(to);
        }
        let is_new = operation == "Unsqueeze";
        let rank = if is_new { shape.len() + list.len() } else { shape.len() };
        let axes = list.iter().map(|&axis| self.counted(axis, rank).ok());
        let axes = axes.collect::<Option<Vec<_>>>()?;
        if is_new {
            let mut own = shape.iter();
            let side = |axis| if axes.contains(&axis) { Some(1) } else { own.next().copied() };
            return (0..rank).map(side).collect();
        }
        let kept = (0..rank).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]);
        axes.iter().all(|&axis| shape[axis] == 1).then(|| kept.collect())
    }
}

fn is_foldable(operation: &str) -> bool {
    let is_listed = matches!(
        operation,
        "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Mod"
            | "Pow"
            | "Min"
            | "Max"
            | "Equal"
            | "Where"
            | "Cast"
            | "Concat"
            | "ConstantOfShape"
            | "Expand"
            | "Gather"
            | "Reshape"
            | "Slice"
            | "Squeeze"
            | "Unsqueeze"
    );
    is_listed || by_number(operation).is_some()
}

/// A function of one real number.
fn by_number(operation: &str) -> Option<fn(f64) -> f64> {
    let of: fn(f64) -> f64 = match operation {
        "Sqrt" => f64::sqrt,
        "Floor" => f64::floor,
        "Ceil" => f64::ceil,
        "Abs" => f64::abs,
        "Exp" => f64::exp,
        "Log" => f64::ln,
        "Reciprocal" => f64::recip,
        "Neg" => |x| -x,
        _ => return None,
    };
    Some(of)
}

/// The same integers, as one without an axis or as a list.
fn scalar(x: &Sides, is_scalar: bool) -> Known {
    Known::Sides(Sides { is_scalar, ..x.clone() })
}

fn joined(first: &Sides, rest: &[Known]) -> Option<Known> {
    let mut values = first.values.clone();
    for known in rest {
        match known {
            Known::Sides(sides) => values.extend_from_slice(&sides.values),
            Known::Reals(..) => return None,
        }
    }
    Some(Known::Sides(Sides { values, is_scalar: false }))
}

fn chosen(condition: &Sides, a: &Sides, b: &Sides) -> Option<Known> {
    let yes = condition.combined(a, |is, a| {
        // What is not chosen is 0.
        Some(if is == Side::Number(0) { Side::Number(0) } else { a })
    })?;
    let no = condition
        .combined(b, |is, b| Some(if is == Side::Number(0) { b } else { Side::Number(0) }))?;
    let either = |a: Side, b: Side| match (a, b) {
        (Side::Number(0), side) | (side, Side::Number(0)) => Some(side),
        _ => None,
    };
    yes.combined(&no, either).map(Known::Sides)
}

/// `Cast` of integers.
fn converted(node: &Node<'_>, x: &Sides) -> Option<Known> {
    match node.integer("to", 0) {
        6 | 7 => Some(Known::Sides(x.clone())),
        1 => {
            let values = x.numbers()?.into_iter().map(|number| number as f32).collect();
            let shape = if x.is_scalar { vec![] } else { vec![x.values.len()] };
            Some(Known::Reals(shape, values))
        }
        _ => None,
    }
}

/// `Cast` of real numbers.
fn of_reals(node: &Node<'_>, shape: &[usize], x: &[f32]) -> Option<Known> {
    match node.integer("to", 0) {
        1 => Some(Known::Reals(shape.to_vec(), x.to_vec())),
        6 | 7 if shape.len() < 2 => {
            let values = x.iter().map(|&x| Side::Number(x as i64)).collect();
            Some(Known::Sides(Sides { values, is_scalar: shape.is_empty() }))
        }
        _ => None,
    }
}

/// An operator of real numbers of one shape, or of some and a single one.
fn of_both(
    operation: &str,
    (of_a, a): (&[usize], &[f32]),
    (of_b, b): (&[usize], &[f32]),
) -> Option<Known> {
    let by = match operation {
        "Add" => Binary::Add,
        "Sub" => Binary::Subtract,
        "Mul" => Binary::Multiply,
        "Div" => Binary::Divide,
        "Pow" => Binary::Power,
        "Min" => Binary::Minimum,
        "Max" => Binary::Maximum,
        _ => return None,
    };
    let is_one = |values: &[f32], shape: &[usize], other: &[usize]| {
        values.len() == 1 && shape.len() <= other.len()
    };
    let shape = match () {
        () if of_a == of_b || is_one(b, of_b, of_a) => of_a,
        () if is_one(a, of_a, of_b) => of_b,
        () => return None,
    };
    let len = a.len().max(b.len());
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let of = |at: usize| {
        let [a, b] = [a, b].map(|values| f64::from(values[at % values.len()]));
        by.of(a, b) as f32
    };
    Some(Known::Reals(shape.to_vec(), (0..len).map(of).collect()))
}

/// Whether a target of `Expand` repeats a constant for each sample of the batch alone.
fn is_of_batch(shape: &[usize], target: &Sides) -> bool {
    let is_kept = |(&own, &side): (&usize, &Side)| match side {
        Side::Batches(_) => own == 1,
        Side::Number(side) => side == 1 || side == own as i64,
    };
    shape.len() == target.values.len() && shape.iter().zip(&target.values).all(is_kept)
}
