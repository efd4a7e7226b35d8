//! Sums and products of two tensors, number by number.

use updraft_simd::{Clamp, Isa};

use super::cpu::{Add, Multiply};
use crate::scheme::{ActivationScheme, OutputScheme};

/// A residual sum `y = a + b` of tensors with different schemes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QuantizedAdd {
    factors: [f32; 2],
    offset: f32,
    clamp: Clamp,
}

impl QuantizedAdd {
    /// The sum in `output`, of tensors in `inputs`.
    pub(crate) fn new(inputs: [ActivationScheme; 2], output: OutputScheme) -> Self {
        let to = f64::from(output.scheme().scale());
        let factors = inputs.map(|input| f64::from(input.scale()) / to);
        let zeros = inputs.map(|input| f64::from(input.zero_point()));
        let offset = -(factors[0] * zeros[0] + factors[1] * zeros[1]);
        let [least, greatest] = output.bounds();
        Self {
            factors: factors.map(|factor| factor as f32),
            offset: offset as f32,
            clamp: Clamp::new(output.scheme().zero_point(), least, greatest),
        }
    }

    /// Adds.
    ///
    /// # Panics
    /// If the slices differ in length, or the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, a: &[u8], b: &[u8], y: &mut [u8]) {
        assert_eq!(a.len(), b.len(), "numbers of both summands");
        assert_eq!(a.len(), y.len(), "numbers of the sum");
        let Self { factors, offset, clamp } = *self;
        isa.int8_vectors().run(Add { a, b, factors, offset, clamp, to: y });
    }
}

/// Products of two codes: exact integers, then one factor and one rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QuantizedProduct {
    zeros: [i32; 2],
    factor: f32,
    clamp: Clamp,
}

impl QuantizedProduct {
    /// The product in `output`, of tensors in `inputs`.
    pub(crate) fn new(inputs: [ActivationScheme; 2], output: ActivationScheme) -> Self {
        let [a, b] = inputs.map(|input| f64::from(input.scale()));
        Self {
            zeros: inputs.map(|input| input.zero_point().into()),
            factor: (a * b / f64::from(output.scale())) as f32,
            clamp: Clamp::new(output.zero_point(), 0, 255),
        }
    }

    /// Multiplies one image by another, or each of its pixels by the single pixel of the other.
    ///
    /// # Panics
    /// If the CPU does not have `isa`.
    pub(crate) fn run(&self, isa: Isa, a: &[u8], b: &[u8], y: &mut [u8]) {
        let Self { zeros, factor, clamp } = *self;
        isa.int8_vectors().run(Multiply { a, b, zeros, factor, clamp, to: y });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::reference;

    #[test]
    fn every_pair_of_codes_is_exact_on_every_path() {
        let scheme = |scale, zero| ActivationScheme::try_new(scale, zero).expect("valid");
        let inputs = [scheme(0.013, 12), scheme(0.4, 255)];
        let (a, b): (Vec<u8>, Vec<u8>) =
            (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))).unzip();
        for output in
            [OutputScheme::new(scheme(0.21, 130)), OutputScheme::rectified(scheme(0.05, 3))]
        {
            let right: Vec<u8> =
                a.iter().zip(&b).map(|(&a, &b)| reference::add([a, b], inputs, output)).collect();
            for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
                let mut y = vec![0; a.len()];
                QuantizedAdd::new(inputs, output).run(isa, &a, &b, &mut y);
                assert_eq!(y, right, "{isa}");
            }
        }
    }

    #[test]
    fn a_sum_by_hand() {
        let scheme = |scale, zero| ActivationScheme::try_new(scale, zero).expect("valid");
        let sum = QuantizedAdd::new(
            [scheme(0.5, 10), scheme(0.25, 0)],
            OutputScheme::new(scheme(1.0, 100)),
        );
        let mut y = [0; 3];
        // 5 + 10, −5 + 0.25 and 122.5 + 63.75 real units; the last lies outside.
        sum.run(Isa::detect(), &[20, 0, 255], &[40, 1, 255], &mut y);
        assert_eq!(y, [115, 95, 255]);
    }

    #[test]
    fn products_by_hand_and_for_each_pixel() {
        let scheme = |scale, zero| ActivationScheme::try_new(scale, zero).expect("valid");
        let product = QuantizedProduct::new([scheme(0.5, 10), scheme(0.25, 0)], scheme(1.0, 100));
        let mut y = [0; 4];
        // 5·2.5, −5·2.5, 0 and 122.5·2.5: 12.5 goes to the even 12, the last lies outside.
        product.run(Isa::detect(), &[20, 0, 10, 255], &[10], &mut y);
        assert_eq!(y, [112, 88, 100, 255]);
        product.run(Isa::detect(), &[20, 0, 10, 255], &[10, 0, 255, 4], &mut y);
        assert_eq!(y, [112, 100, 100, 222]);
    }

    #[test]
    fn every_product_of_codes_is_exact_on_every_path() {
        let scheme = |scale, zero| ActivationScheme::try_new(scale, zero).expect("valid");
        let (first, second) = (scheme(0.013, 12), scheme(0.4, 255));
        let (a, b): (Vec<u8>, Vec<u8>) =
            (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))).unzip();
        for output in [scheme(0.21, 130), scheme(1.5, 0)] {
            let factor = (f64::from(first.scale()) * f64::from(second.scale())
                / f64::from(output.scale())) as f32;
            let right = |(a, b): (&u8, &u8)| {
                let product = (i32::from(*a) - 12) * (i32::from(*b) - 255);
                let steps = (product as f32 * factor).round_ties_even();
                (steps + f32::from(output.zero_point())).clamp(0.0, 255.0) as u8
            };
            let right: Vec<u8> = a.iter().zip(&b).map(right).collect();
            for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
                let mut y = vec![0; a.len()];
                QuantizedProduct::new([first, second], output).run(isa, &a, &b, &mut y);
                assert_eq!(y, right, "{isa}");
            }
        }
    }
}
