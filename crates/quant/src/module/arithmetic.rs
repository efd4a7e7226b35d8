//! Element-wise operations, represented as functions of one tensor as long as possible.

use burn::backend::ir::{
    ActivationOperationIr, BaseOperationIr, BinaryOpIr, FloatOperationIr, NumericOperationIr,
    OperationIr, ScalarIr, ScalarOpIr, TensorIr,
};

use super::constant::Constant;
use super::reader::{Meaning, Read, Reader, kind_of};
use crate::network::Value;
use crate::operation::{Binary, Function, Unary};
use crate::scheme::ActivationScheme;
use crate::view::View;

impl Reader<'_> {
    /// Reads an element-wise operation; `None` if it is another one.
    ///
    /// A tensor that a module rounds to codes and back is a tensor of that scheme.
    pub(crate) fn arithmetic(&mut self, operation: &OperationIr) -> Read<Option<Meaning>> {
        let meaning = self.element_wise(operation)?;
        let Some(Meaning::Value { value, function, view }) = &meaning else { return Ok(meaning) };
        match function.fake_quantization() {
            None => Ok(meaning),
            Some((before, scheme)) => {
                let rounded = self.rounded(*value, [function, &before], scheme)?;
                Ok(Some(Meaning::of(rounded, view.clone())))
            }
        }
    }

    /// A function of a value that ends with rounding to a scheme, and the function before that.
    fn rounded(
        &mut self,
        value: Value,
        [whole, before]: [&Function; 2],
        scheme: ActivationScheme,
    ) -> Read<Value> {
        let mut value = value;
        if !before.is_identity() {
            let name = self.numbered(kind_of(before));
            let given = self.graph.function(&name, value, before);
            value = self.added(given)?;
        } else if self.graph.scheme(value).is_some_and(|other| other != scheme) {
            // It has another scheme already: its codes become those of this one by a table.
            let name = self.numbered("requantize");
            let given = self.graph.function(&name, value, whole);
            value = self.added(given)?;
        }
        self.graph.set_scheme(value, scheme);
        Ok(value)
    }

    fn element_wise(&mut self, operation: &OperationIr) -> Read<Option<Meaning>> {
        let meaning = match operation {
            OperationIr::BaseFloat(BaseOperationIr::MaskWhere(mask)) => {
                self.choose(&mask.mask, &mask.value, &mask.tensor)
            }
            OperationIr::BaseFloat(BaseOperationIr::MaskFill(fill)) => {
                let value = Function::constant(fill.value.elem::<f32>());
                self.choose_of(&fill.mask, None, &value, &fill.tensor)
            }
            OperationIr::NumericFloat(_, operation) => return self.numeric(operation),
            OperationIr::Float(_, operation) => return self.float(operation),
            OperationIr::Activation(operation) => return self.activation(operation),
            _ => return Ok(None),
        };
        meaning.map(Some)
    }

    fn numeric(&mut self, operation: &NumericOperationIr) -> Read<Option<Meaning>> {
        use NumericOperationIr as N;

        let meaning = match operation {
            N::Add(both) => return self.binary(Binary::Add, both),
            N::Sub(both) => return self.binary(Binary::Subtract, both),
            N::Mul(both) => return self.binary(Binary::Multiply, both),
            N::Div(both) => {
                return match self.norm(both)? {
                    None => self.binary(Binary::Divide, both),
                    norm => Ok(norm),
                };
            }
            N::AddScalar(both) => self.with_number(Binary::Add, both),
            N::SubScalar(both) => self.with_number(Binary::Subtract, both),
            N::MulScalar(both) => self.with_number(Binary::Multiply, both),
            N::DivScalar(both) => self.with_number(Binary::Divide, both),
            N::PowiScalar(both) => self.with_number(Binary::Power, both),
            N::ClampMin(both) => self.with_number(Binary::Maximum, both),
            N::ClampMax(both) => self.with_number(Binary::Minimum, both),
            N::Clamp(clamp) => {
                let [low, high] = [clamp.min, clamp.max].map(number);
                self.function(&clamp.tensor, |x| {
                    let x = Function::binary(Binary::Maximum, x, &low);
                    Function::binary(Binary::Minimum, &x, &high)
                })
            }
            N::GreaterElem(both) => self.with_number(Binary::Greater, both),
            N::LowerElem(both) => self
                .function(&both.lhs, |x| Function::binary(Binary::Greater, &number(both.rhs), x)),
            N::GreaterEqualElem(both) => self.function(&both.lhs, |x| {
                not(&Function::binary(Binary::Greater, &number(both.rhs), x))
            }),
            N::LowerEqualElem(both) => self.function(&both.lhs, |x| {
                not(&Function::binary(Binary::Greater, x, &number(both.rhs)))
            }),
            N::Neg(unary) => self.function(&unary.input, |x| x.then(Unary::Negative)),
            N::Abs(unary) => self.function(&unary.input, |x| x.then(Unary::Absolute)),
            N::Full(full) => {
                let value = full.value.elem::<f32>();
                Ok(Meaning::Constant(Constant::full(&full.out.shape.to_vec(), value)))
            }
            N::SumDim(reduce) => self.sum(&reduce.input, reduce.axis, false),
            N::MeanDim(reduce) => self.sum(&reduce.input, reduce.axis, true),
            _ => return Ok(None),
        };
        meaning.map(Some)
    }

    fn float(&mut self, operation: &FloatOperationIr) -> Read<Option<Meaning>> {
        use FloatOperationIr as F;

        let (unary, operation) = match operation {
            F::Exp(unary) => (unary, Unary::Exponential),
            F::Log(unary) => (unary, Unary::Logarithm),
            F::Erf(unary) => (unary, Unary::Erf),
            F::Sqrt(unary) => (unary, Unary::SquareRoot),
            F::Tanh(unary) => (unary, Unary::Tanh),
            F::Recip(unary) => (unary, Unary::Reciprocal),
            F::Round(unary) => (unary, Unary::Round),
            F::Log1p(unary) => {
                let log = self.function(&unary.input, |x| {
                    let one = Function::constant(1.0);
                    Function::binary(Binary::Add, x, &one).then(Unary::Logarithm)
                });
                return log.map(Some);
            }
            F::PowfScalar(both) => return self.with_number(Binary::Power, both).map(Some),
            _ => return Ok(None),
        };
        self.function(&unary.input, |x| x.then(operation)).map(Some)
    }

    fn activation(&mut self, operation: &ActivationOperationIr) -> Read<Option<Meaning>> {
        use ActivationOperationIr as A;

        let zero = Function::constant(0.0);
        let meaning = match operation {
            A::Relu(unary) => self.function(&unary.input, |x| x.then(Unary::Rectifier)),
            A::Sigmoid(unary) => self.function(&unary.input, |x| x.then(Unary::Sigmoid)),
            A::LogSigmoid(unary) => self.function(&unary.input, |x| {
                // −ln(1 + e^−x), where e^−x is infinite only far below the range of codes.
                let small = x.then(Unary::Negative).then(Unary::Exponential);
                let sum = Function::binary(Binary::Add, &Function::constant(1.0), &small);
                sum.then(Unary::Logarithm).then(Unary::Negative)
            }),
            A::Gelu(unary) => self.function(&unary.input, |x| {
                // Hendrycks and Gimpel 2016, arXiv:1606.08415: x/2·(1 + erf(x/√2)).
                let half = Function::constant(0.5);
                let root = Function::constant(std::f32::consts::FRAC_1_SQRT_2);
                let erf = Function::binary(Binary::Multiply, x, &root).then(Unary::Erf);
                let sum = Function::binary(Binary::Add, &erf, &Function::constant(1.0));
                let half = Function::binary(Binary::Multiply, x, &half);
                Function::binary(Binary::Multiply, &half, &sum)
            }),
            A::LeakyRelu(both) => self.function(&both.lhs, |x| {
                let small = Function::binary(Binary::Multiply, x, &number(both.rhs));
                Function::choose(&Function::binary(Binary::Greater, x, &zero), x, &small)
            }),
            A::HardSigmoid(hard) => self.function(&hard.tensor, |x| {
                let line = Function::binary(Binary::Multiply, x, &number(hard.alpha));
                let line = Function::binary(Binary::Add, &line, &number(hard.beta));
                let line = Function::binary(Binary::Maximum, &line, &zero);
                Function::binary(Binary::Minimum, &line, &Function::constant(1.0))
            }),
            _ => return Ok(None),
        };
        meaning.map(Some)
    }

    fn with_number(&mut self, operation: Binary, both: &ScalarOpIr) -> Read<Meaning> {
        let value = number(both.rhs);
        self.function(&both.lhs, |x| Function::binary(operation, x, &value))
    }

    /// `f` of a tensor.
    fn function(&mut self, tensor: &TensorIr, f: impl Fn(&Function) -> Function) -> Read<Meaning> {
        if let Meaning::Value { function, .. } = self.meaning(tensor)?
            && function.lines().len() > Function::MOST_LINES / 2
        {
            self.viewed(tensor)?;
        }
        match self.meaning(tensor)? {
            Meaning::Constant(constant) => {
                let of_constant = f(&Function::identity());
                let values = constant.values.iter().map(|&value| of_constant.of(value)).collect();
                Ok(Meaning::Constant(Constant { shape: constant.shape, values }))
            }
            Meaning::Value { value, function, view } => {
                Ok(Meaning::Value { value, function: f(&function), view })
            }
        }
    }

    /// `yes` where the mask is set, else `no`; all three are functions of one tensor.
    fn choose(&mut self, mask: &TensorIr, yes: &TensorIr, no: &TensorIr) -> Read<Meaning> {
        match self.meaning(yes)? {
            Meaning::Constant(constant) => {
                let reason = || self.unsupported("it chooses between tensors of several numbers");
                let value = constant.one().ok_or_else(reason)?;
                self.choose_of(mask, None, &Function::constant(value), no)
            }
            Meaning::Value { value, function, view } => {
                self.choose_of(mask, Some((value, view)), &function, no)
            }
        }
    }

    fn choose_of(
        &mut self,
        mask: &TensorIr,
        of: Option<(Value, View)>,
        yes: &Function,
        no: &TensorIr,
    ) -> Read<Meaning> {
        match (self.meaning(mask)?, self.meaning(no)?) {
            (
                Meaning::Value { value, function: condition, view },
                Meaning::Value { value: other, function: no, view: seen },
            ) if (value, &view) == (other, &seen)
                && of.is_none_or(|yes| yes == (value, view.clone())) =>
            {
                let function = Function::choose(&condition, yes, &no);
                Ok(Meaning::Value { value, function, view })
            }
            _ => Err(self.unsupported("it chooses between functions of different tensors")),
        }
    }

    /// `None` for two tensors that both depend on the input.
    fn binary(&mut self, operation: Binary, both: &BinaryOpIr) -> Read<Option<Meaning>> {
        let meaning = match (self.meaning(&both.lhs)?, self.meaning(&both.rhs)?) {
            (Meaning::Constant(a), Meaning::Constant(b)) => {
                let result = a.zip(&b, &both.out.shape.to_vec(), |a, b| operation.of(a, b));
                let reason = || self.unsupported("its shapes do not fit");
                result.map(Meaning::Constant).ok_or_else(reason)
            }
            (Meaning::Value { .. }, Meaning::Constant(constant)) => match constant.one() {
                Some(value) if is_kept(&both.lhs, &both.out) => {
                    let value = Function::constant(value);
                    self.function(&both.lhs, |x| Function::binary(operation, x, &value))
                }
                _ => self.with_channels(operation, &both.lhs, &constant, true),
            },
            (Meaning::Constant(constant), Meaning::Value { .. }) => match constant.one() {
                Some(value) if is_kept(&both.rhs, &both.out) => {
                    let value = Function::constant(value);
                    self.function(&both.rhs, |x| Function::binary(operation, &value, x))
                }
                _ => self.with_channels(operation, &both.rhs, &constant, false),
            },
            (
                Meaning::Value { value: a, function: f, view },
                Meaning::Value { value: b, function: g, view: other },
            ) => {
                let lines = f.lines().len() + g.lines().len();
                if a != b || view != other || lines >= Function::MOST_LINES {
                    return match operation {
                        Binary::Divide => {
                            let reason = "it divides two tensors that depend on the input";
                            Err(self.unsupported(reason))
                        }
                        _ => Ok(None),
                    };
                }
                let function = Function::binary(operation, &f, &g);
                Ok(Meaning::Value { value: a, function, view })
            }
        };
        meaning.map(Some)
    }

    /// A tensor with a number for each channel, or for each number of a sample.
    fn with_channels(
        &mut self,
        operation: Binary,
        tensor: &TensorIr,
        constant: &Constant,
        is_first: bool,
    ) -> Read<Meaning> {
        let (value, view) = self.viewed(tensor)?;
        let rank = tensor.shape.len();
        let channels = self.graph.shape(value)[0];
        // The channels of tokens are their last axis.
        let is_last = view.is_channels_last(self.graph.shape(value));
        let mut each = vec![1; rank];
        each[if is_last { rank - 1 } else { 1 }] = channels;
        let numbers = match constant.expand(&each) {
            Some(numbers) => numbers.values,
            None => return self.with_each(operation, tensor, constant, is_first),
        };
        let (x, view) = if is_last {
            (value, view)
        } else {
            let x = self.value_of_channels(tensor)?;
            (x, View::of(self.graph.shape(x)))
        };
        let (zeros, ones) = (vec![0.0; channels], vec![1.0; channels]);
        let (scale, shift) = match (operation, is_first) {
            (Binary::Add, _) => (ones, numbers),
            (Binary::Subtract, true) => (ones, negative(&numbers)),
            (Binary::Subtract, false) => (negative(&ones), numbers),
            (Binary::Multiply, _) => (numbers, zeros),
            (Binary::Divide, true) => (numbers.iter().map(|value| 1.0 / value).collect(), zeros),
            _ => return Err(self.unsupported("it is not linear in the input")),
        };
        let name = self.numbered("affine");
        let y = self.graph.affine(&name, x, &scale, &shift);
        let y = self.added(y)?;
        Ok(Meaning::of(y, view))
    }

    /// A tensor plus a number for each of a sample.
    fn with_each(
        &mut self,
        operation: Binary,
        tensor: &TensorIr,
        constant: &Constant,
        is_first: bool,
    ) -> Read<Meaning> {
        let reason = || self.unsupported("its numbers are neither one nor one for each channel");
        let is_negative = match (operation, is_first) {
            (Binary::Add, _) => false,
            (Binary::Subtract, true) => true,
            _ => return Err(reason()),
        };
        let numbers = constant.of_sample().ok_or_else(reason)?;
        let (value, view) = self.in_order(tensor)?;
        let numbers = numbers.expand(&[&[1], &view.shape()[..]].concat());
        let numbers = numbers.ok_or_else(|| {
            self.unsupported("its numbers have other axes than the tensor they are added to")
        })?;
        let numbers = match view.is_channels_last(self.graph.shape(value)) {
            true => {
                let last = numbers.shape.len() - 1;
                numbers.permute(&[&[last], &(0..last).collect::<Vec<_>>()[..]].concat())
            }
            false => numbers,
        };
        let values = if is_negative { negative(&numbers.values) } else { numbers.values };
        let name = self.numbered("shift");
        let y = self.graph.shift(&name, value, &values);
        let y = self.added(y)?;
        Ok(Meaning::of(y, view))
    }
}

fn negative(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| -value).collect()
}

fn number(scalar: ScalarIr) -> Function {
    Function::constant(scalar.elem::<f32>())
}

/// 1 for 0, and 0 for 1.
fn not(condition: &Function) -> Function {
    Function::binary(Binary::Subtract, &Function::constant(1.0), condition)
}

/// Whether a tensor has the shape of the result already.
fn is_kept(tensor: &TensorIr, out: &TensorIr) -> bool {
    tensor.shape == out.shape
}
