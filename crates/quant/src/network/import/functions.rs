//! Functions of one number: activations, limits, comparisons and choices.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::real::Real;
use crate::operation::{Binary, Function, Unary};

/// An operation of a function has 32 bytes, as eight f32 do, in a list that may have room for twice
/// as many.
const NUMBERS_OF_LINE: usize = 16;

fn constant(value: f32) -> Function {
    Function::constant(value)
}

fn limited(x: &Function, low: f32, high: f32) -> Function {
    let low = Function::binary(Binary::Maximum, x, &constant(low));
    Function::binary(Binary::Minimum, &low, &constant(high))
}

/// `factor·x + offset`.
fn line(x: &Function, factor: f32, offset: f32) -> Function {
    let scaled = Function::binary(Binary::Multiply, x, &constant(factor));
    Function::binary(Binary::Add, &scaled, &constant(offset))
}

/// `x` above 0, else another function.
fn above(x: &Function, other: &Function) -> Function {
    let condition = Function::binary(Binary::Greater, x, &constant(0.0));
    Function::choose(&condition, x, other)
}

fn times(a: &Function, b: &Function) -> Function {
    Function::binary(Binary::Multiply, a, b)
}

impl<'a> Importer<'a> {
    pub(super) fn unary(&mut self, node: &Node<'a>) -> Read<()> {
        if !is_unary(node.operation) {
            let [operation, node] = self.place();
            return Err(super::ImportError::Operation { operation, node });
        }
        let Some(name) = node.input(0) else { return self.refuse("it has no input") };
        let real = self.pending(name)?;
        let x = real.function.clone().unwrap_or_else(Function::identity);
        let alpha = |otherwise| node.real("alpha", otherwise);
        let function = match node.operation {
            "Relu" => x.then(Unary::Rectifier),
            "Sigmoid" => x.then(Unary::Sigmoid),
            "Tanh" => x.then(Unary::Tanh),
            "Exp" => x.then(Unary::Exponential),
            "Log" => x.then(Unary::Logarithm),
            "Sqrt" => x.then(Unary::SquareRoot),
            "Erf" => x.then(Unary::Erf),
            "Abs" => x.then(Unary::Absolute),
            "Neg" => x.then(Unary::Negative),
            "Reciprocal" => x.then(Unary::Reciprocal),
            "Round" => x.then(Unary::Round),
            "LeakyRelu" => above(&x, &times(&x, &constant(alpha(0.01)))),
            "HardSigmoid" => limited(&line(&x, alpha(0.2), node.real("beta", 0.5)), 0.0, 1.0),
            "HardSwish" => times(&x, &limited(&line(&x, 1.0 / 6.0, 0.5), 0.0, 1.0)),
            "Elu" => {
                let curve = line(&x.then(Unary::Exponential), 1.0, -1.0);
                above(&x, &times(&curve, &constant(alpha(1.0))))
            }
            "Softplus" => line(&x.then(Unary::Exponential), 1.0, 1.0).then(Unary::Logarithm),
            "Gelu" => self.gelu(node, &x)?,
            "Clip" => self.clip(node, &x)?,
            // Truth values are 1 or 0.
            _ => match node.integer("to", 0) {
                1 => x,
                9 => Function::choose(&x, &constant(1.0), &constant(0.0)),
                _ => return self.refuse("it must convert to float or to a truth value"),
            },
        };
        self.set_function(node, real, function)
    }

    fn gelu(&self, node: &Node<'a>, x: &Function) -> Read<Function> {
        let bell = match node.text("approximate", "none") {
            "none" => times(x, &constant(std::f32::consts::FRAC_1_SQRT_2)).then(Unary::Erf),
            "tanh" => {
                // √(2/π)·(x + 0.044715·x³), as ONNX defines the approximation.
                let square = times(x, x);
                let curve = times(x, &line(&square, 0.044_715, 1.0));
                let root = (2.0 / std::f32::consts::PI).sqrt();
                times(&curve, &constant(root)).then(Unary::Tanh)
            }
            _ => return self.refuse("its `approximate` must be none or tanh"),
        };
        Ok(times(&times(x, &constant(0.5)), &line(&bell, 1.0, 1.0)))
    }

    /// Limits from attributes or from inputs.
    fn clip(&self, node: &Node<'a>, x: &Function) -> Read<Function> {
        let mut function = x.clone();
        let ends = [(1, "min", Binary::Maximum), (2, "max", Binary::Minimum)];
        for (at, attribute, operation) in ends {
            let limit = match node.input(at) {
                Some(_) => Some(self.number(node, at)?),
                None => node.attribute(attribute).and_then(|attribute| attribute.real),
            };
            if let Some(limit) = limit {
                if limit.is_nan() {
                    return self.refuse("a limit is NaN");
                }
                if limit.is_finite() {
                    function = Function::binary(operation, &function, &constant(limit));
                }
            }
        }
        Ok(function)
    }

    /// A constant of one number.
    fn number(&self, node: &Node<'a>, at: usize) -> Read<f32> {
        match self.meaning(node, at)? {
            Meaning::Constant(number) => match number.reals().as_deref() {
                Some(&[number]) => Ok(number),
                _ => self.refuse("an input must be one float"),
            },
            Meaning::Coded(number) => match number.reals()[..] {
                [number] => Ok(number),
                _ => self.refuse("an input must be one float"),
            },
            _ => self.refuse("an input must be a constant"),
        }
    }

    /// `Where` of functions of one tensor.
    pub(super) fn choice(&mut self, node: &Node<'a>) -> Read<()> {
        let mut base: Option<Real> = None;
        let mut functions = Vec::new();
        for at in 0..3 {
            let meaning = self.meaning(node, at)?;
            let Meaning::Real(real) = meaning else {
                functions.push(constant(self.number(node, at)?));
                continue;
            };
            if base.as_ref().is_some_and(|base| !is_same(base, &real)) {
                return self.refuse("it chooses between functions of several tensors");
            }
            functions.push(real.function.clone().unwrap_or_else(Function::identity));
            base = Some(real);
        }
        let Some(base) = base else { return self.refuse("all of its inputs are constants") };
        let function = Function::choose(&functions[0], &functions[1], &functions[2]);
        self.set_function(node, base, function)
    }

    /// Sets the output of a node to a function that a layer computes where it is read.
    pub(super) fn set_function(
        &mut self,
        node: &Node<'a>,
        real: Real,
        function: Function,
    ) -> Read<()> {
        if function.lines().len() > Function::MOST_LINES {
            return self.refuse("it is a function of more than 256 operations");
        }
        self.add_numbers(NUMBERS_OF_LINE * function.lines().len())?;
        self.set(node, Meaning::Real(Real { function: Some(function), ..real }))
    }
}

/// Whether two functions are of the same numbers.
pub(super) fn is_same(a: &Real, b: &Real) -> bool {
    (a.value, a.is_coded, a.batch) == (b.value, b.is_coded, b.batch) && a.view == b.view
}

fn is_unary(operation: &str) -> bool {
    const ALL: [&str; 19] = [
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "Log",
        "Sqrt",
        "Erf",
        "Abs",
        "Neg",
        "Reciprocal",
        "Round",
        "LeakyRelu",
        "HardSigmoid",
        "HardSwish",
        "Elu",
        "Softplus",
        "Gelu",
        "Clip",
        "Cast",
    ];
    ALL.contains(&operation)
}
