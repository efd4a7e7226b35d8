//! `QuantizeLinear` and `DequantizeLinear`: schemes of activations, and constants as codes.

use std::rc::Rc;

use super::constant::{Coded, Constant};
use super::error::{ImportError, Read};
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::real::Real;
use crate::network::protobuf::Element;
use crate::scheme::{ActivationScheme, SchemeError};

/// The scales and zero points of a node, and the type of its codes.
struct Scales {
    element: Element,
    scales: Vec<f32>,
    zeros: Vec<i64>,
}

impl<'a> Importer<'a> {
    /// The second and third input; without the third, codes are uint8 or of the given type.
    fn scales(&self, node: &Node<'a>, otherwise: Element) -> Read<Scales> {
        let Meaning::Constant(scales) = self.meaning(node, 1)? else {
            return self.refuse("its scale must be a constant");
        };
        let Some(scales) = scales.reals() else { return self.refuse("its scale must be float") };
        let (element, zeros) = match node.input(2) {
            None => (otherwise, vec![0; scales.len()]),
            Some(_) => match self.meaning(node, 2)? {
                Meaning::Constant(zeros) => match zeros.integers() {
                    Some(integers) => (zeros.element, integers),
                    None => return self.refuse("its zero point must be an integer"),
                },
                _ => return self.refuse("its zero point must be a constant"),
            },
        };
        if scales.is_empty() || zeros.len() != scales.len() {
            return self.refuse("it must have as many zero points as scales, and one at least");
        }
        if node.integer("block_size", 0) != 0 {
            return self
                .refuse("it has one scale for each block; one for each channel can be used");
        }
        match element {
            Element::U8 | Element::I8 | Element::I32 => Ok(Scales { element, scales, zeros }),
            _ => self.refuse("its codes must be uint8, int8, or int32 of a bias"),
        }
    }

    /// The scheme of a tensor that depends on the input: signed codes are shifted by 128.
    fn scheme(&self, by: &Scales) -> Read<ActivationScheme> {
        let (&[scale], &[zero]) = (&by.scales[..], &by.zeros[..]) else {
            return self.refuse("it has several scales for a tensor that depends on the input");
        };
        let zero = match by.element {
            Element::U8 => zero as u8,
            Element::I8 => (zero + 128) as u8,
            _ => return self.refuse("codes of a tensor must be uint8 or int8"),
        };
        ActivationScheme::try_new(scale, zero).map_err(|cause| self.wrong_scheme(cause))
    }

    fn wrong_scheme(&self, cause: SchemeError) -> ImportError {
        let [operation, node] = self.place();
        ImportError::Scheme { operation, node, cause }
    }

    pub(super) fn quantize_linear(&mut self, node: &Node<'a>) -> Read<()> {
        let element = match node.integer("output_dtype", 0) {
            0 => None,
            2 => Some(Element::U8),
            3 => Some(Element::I8),
            _ => return self.refuse("its `output_dtype` must be uint8 or int8"),
        };
        let by = self.scales(node, element.unwrap_or(Element::U8))?;
        if element.is_some_and(|element| element != by.element) {
            return self.refuse("its `output_dtype` is another type than that of its zero point");
        }
        let meaning = match self.meaning(node, 0)? {
            Meaning::Constant(constant) => {
                self.count(&constant, &by)?;
                let codes = self.rounded(node, &constant, &by)?;
                Meaning::Constant(Rc::new(codes))
            }
            _ => {
                let scheme = self.scheme(&by)?;
                let Some(name) = node.input(0) else { return self.refuse("it has no input") };
                Meaning::Codes(self.quantize(name, scheme)?, scheme, by.element)
            }
        };
        self.set(node, meaning)
    }

    /// Counts the numbers of a constant with its scales and zero points.
    fn count(&mut self, constant: &Constant<'a>, by: &Scales) -> Read<()> {
        if constant.len() == 0 {
            return self.refuse("it reads a constant without numbers");
        }
        // A zero point takes as much memory as two f32.
        self.add_numbers(constant.len().saturating_add(3 * by.scales.len()))
    }

    /// The codes of a constant.
    fn rounded(&self, node: &Node<'a>, constant: &Constant<'a>, by: &Scales) -> Read<Constant<'a>> {
        let [least, most] = match by.element {
            Element::U8 => [0.0, 255.0],
            Element::I8 => [-128.0, 127.0],
            _ => return self.refuse("codes of a constant must be uint8 or int8"),
        };
        let Some(values) = constant.reals() else { return self.refuse("its input is no float") };
        let axis = self.axis_of(node, &constant.shape, by)?;
        let inner = constant.shape.iter().skip(axis + 1).fold(1, |inner: usize, &side| {
            // A constant without numbers may have sides of any length.
            inner.saturating_mul(side)
        });
        let code = |(at, value): (usize, &f32)| {
            let place = at / inner.max(1) % by.scales.len();
            let code = (value / by.scales[place]).round_ties_even() + by.zeros[place] as f32;
            code.clamp(least, most) as i64 as u8
        };
        let codes = values.iter().enumerate().map(code).collect();
        Ok(Constant::of_codes(&constant.shape, by.element, codes))
    }

    /// The axis along which scales differ; 0 if there is only one.
    fn axis_of(&self, node: &Node<'a>, shape: &[usize], by: &Scales) -> Read<usize> {
        if by.scales.len() == 1 {
            return Ok(0);
        }
        let axis = node.integer("axis", 1);
        let axis = if axis < 0 { axis.saturating_add(shape.len() as i64) } else { axis };
        match usize::try_from(axis) {
            Ok(axis) if shape.get(axis) == Some(&by.scales.len()) => Ok(axis),
            _ => self.refuse("its scales are not one for each place along its axis"),
        }
    }

    pub(super) fn dequantize_linear(&mut self, node: &Node<'a>) -> Read<()> {
        let meaning = match self.meaning(node, 0)? {
            Meaning::Constant(codes) => {
                let by = self.scales(node, codes.element)?;
                if by.element != codes.element {
                    return self.refuse("its zero point has another type than its codes");
                }
                self.count(&codes, &by)?;
                let axis = self.axis_of(node, &codes.shape, &by)?;
                let Scales { scales, zeros, .. } = by;
                let codes = codes.as_ref().clone();
                Meaning::Coded(Rc::new(Coded { codes, scales, zeros, axis }))
            }
            Meaning::Codes(real, own, element) => {
                let by = self.scales(node, element)?;
                if by.element != element {
                    return self.refuse("its zero point has another type than its codes");
                }
                let scheme = self.scheme(&by)?;
                Meaning::Real(self.dequantized(real, own, scheme)?)
            }
            _ => return self.refuse("it reads numbers that are not quantized"),
        };
        self.set(node, meaning)
    }

    /// The real numbers of codes, of which another scale is a factor.
    fn dequantized(
        &mut self,
        mut real: Real,
        own: ActivationScheme,
        scheme: ActivationScheme,
    ) -> Read<Real> {
        if own.zero_point() != scheme.zero_point() {
            return self.refuse("its zero point is another than that of the QuantizeLinear before");
        }
        if own == scheme {
            return Ok(real);
        }
        let near = scheme.scale() / own.scale();
        let all = [near, near.next_up(), near.next_down()];
        let exact = all.into_iter().find(|factor| own.scale() * factor == scheme.scale());
        let channels = self.graph.shape(real.value)[0];
        self.add_numbers(2 * channels)?;
        let (scale, shift) = (vec![exact.unwrap_or(near); channels], vec![0.0; channels]);
        let name = self.layer_name();
        let value = self.graph.affine(&name, real.value, &scale, &shift);
        real.value = self.record(value, &[&real])?;
        Ok(real)
    }
}
