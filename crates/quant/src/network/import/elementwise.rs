//! Sums, products and other operations of two tensors, or of a tensor and a constant.

use super::error::Read;
use super::functions::is_same;
use super::importer::{Importer, Meaning, Real};
use super::message::Node;
use crate::operation::{Binary, Function};
use crate::scheme::ActivationScheme;

/// One of the two inputs.
enum Operand<'a> {
    Real(&'a str, Real),
    Constant(Vec<usize>, Vec<f32>),
}

impl<'a> Importer<'a> {
    fn operand(&self, node: &Node<'a>, at: usize) -> Read<Operand<'a>> {
        let Some(name) = node.input(at) else { return self.refuse("an input is left out") };
        match self.meaning_of(name)? {
            Meaning::Constant(constant) => match constant.reals() {
                Some(values) => Ok(Operand::Constant(constant.shape.clone(), values)),
                None => self.refuse("it reads a constant of integers"),
            },
            Meaning::Coded(coded) => {
                Ok(Operand::Constant(coded.codes.shape.clone(), coded.reals()))
            }
            _ => Ok(Operand::Real(name, self.pending(name)?)),
        }
    }

    pub(super) fn binary(&mut self, node: &Node<'a>) -> Read<()> {
        if node.inputs.len() != 2 {
            return self.refuse("it must have two inputs");
        }
        let operation = match node.operation {
            "Add" => Binary::Add,
            "Sub" => Binary::Subtract,
            "Mul" => Binary::Multiply,
            "Div" => Binary::Divide,
            "Min" => Binary::Minimum,
            "Max" => Binary::Maximum,
            "Pow" => Binary::Power,
            _ => Binary::Greater,
        };
        match (self.operand(node, 0)?, self.operand(node, 1)?) {
            (Operand::Constant(..), Operand::Constant(..)) => {
                self.refuse("all of its inputs are constants; simplify the model")
            }
            (Operand::Real(name, real), Operand::Constant(shape, values)) => {
                self.with_constant(node, operation, name, real, (&shape[..], &values[..]), false)
            }
            (Operand::Constant(shape, values), Operand::Real(name, real)) => {
                self.with_constant(node, operation, name, real, (&shape[..], &values[..]), true)
            }
            (Operand::Real(_, a), Operand::Real(_, b)) if is_same(&a, &b) => {
                let [of_a, of_b] =
                    [&a, &b].map(|real| real.function.clone().unwrap_or_else(Function::identity));
                let function = Function::binary(operation, &of_a, &of_b);
                self.set_function(node, a, function)
            }
            (Operand::Real(a, _), Operand::Real(b, _)) => self.of_two(node, operation, [a, b]),
        }
    }

    fn with_constant(
        &mut self,
        node: &Node<'a>,
        operation: Binary,
        name: &'a str,
        real: Real,
        (shape, values): (&[usize], &[f32]),
        is_first: bool,
    ) -> Read<()> {
        if let &[value] = values {
            let x = real.function.clone().unwrap_or_else(Function::identity);
            let constant = Function::constant(value);
            let function = match is_first {
                true => Function::binary(operation, &constant, &x),
                false => Function::binary(operation, &x, &constant),
            };
            return self.set_function(node, real, function);
        }
        self.add_numbers(2 * values.len())?;
        let real = self.real(name)?;
        let x = self.placed(real)?;
        // Axes are compared from the last one, and the batch has length 1.
        let rank = 1 + x.shape.len();
        let mut sides = vec![1; rank.saturating_sub(shape.len())];
        sides.extend(shape);
        if sides.len() != rank || sides[0] != 1 {
            return self.refuse("its constant has more axes than its input, or a batch");
        }
        let is_of_channels = sides[1] == x.shape[0] && sides[2..].iter().all(|&side| side == 1);
        let layer = self.layer_name();
        let y = if is_of_channels {
            let ones = vec![1.0; values.len()];
            let zeros = vec![0.0; values.len()];
            let negative: Vec<f32> = values.iter().map(|value| -value).collect();
            let inverse: Vec<f32> = values.iter().map(|value| 1.0 / value).collect();
            let minus = vec![-1.0; values.len()];
            let (scale, shift) = match (operation, is_first) {
                (Binary::Add, _) => (&ones[..], values),
                (Binary::Subtract, false) => (&ones[..], &negative[..]),
                (Binary::Subtract, true) => (&minus[..], values),
                (Binary::Multiply, _) => (values, &zeros[..]),
                (Binary::Divide, false) => (&inverse[..], &zeros[..]),
                _ => return self.refuse("it must be a sum or a product with its constant"),
            };
            self.graph.affine(&layer, x.value, scale, shift)
        } else if sides[1..] == x.shape[..] && operation == Binary::Add {
            self.graph.shift(&layer, x.value, values)
        } else {
            return self.refuse("its constant must be one number, or one for each channel");
        };
        let y = self.record(y, &[&x])?;
        self.set_shaped(node, y, x.shape)
    }

    fn of_two(&mut self, node: &Node<'a>, operation: Binary, names: [&'a str; 2]) -> Read<()> {
        let [a, b] = names.map(|name| self.real(name));
        let mut both = [self.placed(a?)?, self.placed(b?)?];
        if both[0].shape.len() != both[1].shape.len() {
            return self.refuse("its inputs have different numbers of axes; reshape one of them");
        }
        self.separate(&mut both)?;
        let [mut a, mut b] = both;
        let y = match operation {
            Binary::Add | Binary::Subtract => {
                if operation == Binary::Subtract {
                    b = self.negative(&b)?;
                }
                let layer = self.layer_name();
                self.graph.add(&layer, a.value, b.value)
            }
            Binary::Multiply => {
                let count = |real: &Real| real.shape.iter().product::<usize>();
                if count(&a) < count(&b) {
                    std::mem::swap(&mut a, &mut b);
                }
                let layer = self.layer_name();
                self.graph.multiply(&layer, a.value, b.value)
            }
            _ => return self.refuse("only sums, differences and products are of two tensors"),
        };
        let y = self.record(y, &[&a, &b])?;
        self.set_shaped(node, y, a.shape)
    }

    /// `−x`, whose codes are those of `x` in reverse order.
    fn negative(&mut self, x: &Real) -> Read<Real> {
        let channels = self.graph.shape(x.value)[0];
        self.add_numbers(2 * channels)?;
        let name = self.layer_name();
        let (minus, zeros) = (vec![-1.0; channels], vec![0.0; channels]);
        let value = self.graph.affine(&name, x.value, &minus, &zeros);
        let value = self.record(value, &[x])?;
        if let Some(own) = self.scheme_of(x.value).filter(|_| x.is_coded) {
            let scheme = ActivationScheme::try_new(own.scale(), 255 - own.zero_point());
            self.graph.set_scheme(value, scheme.expect("the scale of another scheme"));
        }
        Ok(Real { value, ..x.clone() })
    }
}
