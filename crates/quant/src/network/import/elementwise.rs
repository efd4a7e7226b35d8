//! Sums, products and other operations of two tensors, or of a tensor and a constant.

use super::error::Read;
use super::functions::is_same;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::product::transposed;
use super::real::{Batch, Real};
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
        let own = real.shape();
        // Axes are compared from the last one, and the batch has length 1.
        let (rank, place) = (real.rank(), real.batch.place());
        let mut sides = vec![1; rank.saturating_sub(shape.len())];
        sides.extend(shape);
        if sides.len() != rank || sides.get(place) != Some(&1) {
            return self.refuse("its constant has more axes than its input, or a batch");
        }
        if let Batch::Alone(place) = real.batch {
            sides.remove(place);
        }
        let is_of = |axis: usize| {
            let mut all = sides.iter().zip(&own).enumerate();
            all.all(|(at, (&side, &len))| side == if at == axis { len } else { 1 })
        };
        let last = own.len().saturating_sub(1);
        if is_of(0) {
            let x = self.placed(real)?;
            return self.of_channels(node, operation, &x, values, is_first);
        }
        if is_of(last) {
            let x = self.tokens(real)?;
            return self.of_channels(node, operation, &x, values, is_first);
        }
        let fits = sides.iter().zip(&own).all(|(&side, &len)| side == 1 || side == len);
        let values = match (operation, is_first) {
            (Binary::Add, _) if fits => values.to_vec(),
            (Binary::Subtract, false) if fits => values.iter().map(|value| -value).collect(),
            _ => return self.refuse("its constant must be one number, or one for each channel"),
        };
        self.shifted(node, real, &sides, &values)
    }

    /// A sum or a product with one number for each channel of a value.
    fn of_channels(
        &mut self,
        node: &Node<'a>,
        operation: Binary,
        x: &Real,
        values: &[f32],
        is_first: bool,
    ) -> Read<()> {
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
        let layer = self.layer_name();
        let y = self.graph.affine(&layer, x.value, scale, shift);
        let value = self.record(y, &[x])?;
        self.set(node, Meaning::Real(Real { value, is_coded: false, ..x.clone() }))
    }

    /// A sum with numbers of a sample, such as positions, of which some may be repeated.
    fn shifted(
        &mut self,
        node: &Node<'a>,
        real: Real,
        sides: &[usize],
        values: &[f32],
    ) -> Read<()> {
        let (own, is_turned) = (real.shape(), self.is_turned(&real));
        self.add_numbers(real.count().saturating_mul(3))?;
        let x = if is_turned { real } else { self.placed(real)? };
        let mut numbers = repeated(values, sides, &own);
        if is_turned && let Some(&channels) = own.last() {
            numbers = transposed(&numbers, channels);
        }
        let layer = self.layer_name();
        let y = self.graph.shift(&layer, x.value, &numbers);
        let value = self.record(y, &[&x])?;
        self.set(node, Meaning::Real(Real { value, is_coded: false, ..x }))
    }

    fn of_two(&mut self, node: &Node<'a>, operation: Binary, names: [&'a str; 2]) -> Read<()> {
        let [a, b] = names.map(|name| self.real(name));
        let [a, b] = [a?, b?];
        if a.shape().len() != b.shape().len() || a.batch != b.batch {
            return self.refuse("its inputs have different numbers of axes; reshape one of them");
        }
        let mut both = self.alike(a, b)?;
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
                if a.count() < b.count() {
                    std::mem::swap(&mut a, &mut b);
                }
                let layer = self.layer_name();
                self.graph.multiply(&layer, a.value, b.value)
            }
            _ => return self.refuse("only sums, differences and products are of two tensors"),
        };
        let value = self.record(y, &[&a, &b])?;
        self.set(node, Meaning::Real(Real { value, is_coded: false, ..a }))
    }

    /// Two tensors as values that have their numbers in one order.
    fn alike(&mut self, a: Real, b: Real) -> Read<[Real; 2]> {
        let is_alike = |importer: &Self, a: &Real, b: &Real| {
            importer.graph.shape(a.value) == importer.graph.shape(b.value) && a.view == b.view
        };
        if is_alike(self, &a, &b) && a.count() == self.numbers_of(a.value) {
            return Ok([a, b]);
        }
        if a.shape() == b.shape() && (self.is_turned(&a) || self.is_turned(&b)) {
            let [a, b] = [self.tokens(a)?, self.tokens(b)?];
            if is_alike(self, &a, &b) {
                return Ok([a, b]);
            }
            return Ok([self.placed(a)?, self.placed(b)?]);
        }
        Ok([self.placed(a)?, self.placed(b)?])
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

/// The numbers of all places, of which those along axes of length 1 are repeated.
fn repeated(values: &[f32], sides: &[usize], shape: &[usize]) -> Vec<f32> {
    let count: usize = shape.iter().product();
    let of = |at: usize| {
        let (mut rest, mut stride, mut place) = (at, 1, 0);
        for (&len, &side) in shape.iter().zip(sides).rev() {
            if side > 1 {
                place += rest % len * stride;
            }
            rest /= len;
            stride *= side;
        }
        values[place]
    };
    (0..count).map(of).collect()
}
