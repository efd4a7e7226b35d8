//! Element-wise functions of codes as tables of 256 entries, also to convert channels to a common
//! scheme.

use updraft_simd::Isa;

use crate::kernels::{look_up, look_up_runs};
use crate::scheme::ActivationScheme;

/// A function of codes as a table of its 256 values, exact for any function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    codes: Box<[u8; 256]>,
}

impl Table {
    /// The codes of `f(x)` for the number `x` of each code; NaN becomes the code 0.
    pub(super) fn new(
        input: ActivationScheme,
        output: ActivationScheme,
        f: impl Fn(f32) -> f32,
    ) -> Self {
        let mut codes = Box::new([0; 256]);
        for (from, to) in (0..=255).zip(codes.iter_mut()) {
            *to = output.code(f(input.real(from)));
        }
        Self { codes }
    }

    #[cfg(feature = "cube")]
    pub(super) fn codes(&self) -> &[u8; 256] {
        &self.codes
    }

    pub(super) fn look_up(&self, isa: Isa, x: &[u8], y: &mut [u8]) {
        look_up(isa, &self.codes, x, y);
    }
}

/// Concatenated runs of several tensors, such as the channels of each pixel, converted to the scheme
/// of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Joining {
    /// The codes of a run of each tensor, and its table if its scheme differs.
    parts: Vec<(usize, Option<Table>)>,
}

impl Joining {
    pub(super) fn new(parts: &[(usize, ActivationScheme)], output: ActivationScheme) -> Self {
        let table = |&(channels, input): &(usize, ActivationScheme)| {
            (channels, (input != output).then(|| Table::new(input, output, |x| x)))
        };
        Self { parts: parts.iter().map(table).collect() }
    }

    /// The number of tensors.
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// Writes the channels of tensor `part`, `[pixels, channels]`, to their position in `y`.
    pub(super) fn join(&self, isa: Isa, part: usize, x: &[u8], y: &mut [u8]) {
        let all: usize = self.parts.iter().map(|(channels, _)| channels).sum();
        let first: usize = self.parts[..part].iter().map(|(channels, _)| channels).sum();
        let (channels, table) = &self.parts[part];
        let Some(Table { codes }) = table else {
            for (x, y) in x.chunks_exact(*channels).zip(y.chunks_exact_mut(all)) {
                y[first..first + channels].copy_from_slice(x);
            }
            return;
        };
        look_up_runs(isa, codes, x, *channels, &mut y[first..], all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(scale: f32, zero: u8) -> ActivationScheme {
        ActivationScheme::try_new(scale, zero).expect("valid")
    }

    #[test]
    fn a_table_has_the_code_of_every_value() {
        let (input, output) = (scheme(0.1, 128), scheme(0.01, 3));
        let table = Table::new(input, output, |x| x * x);
        let codes: Vec<u8> = (0..=255).collect();
        let mut squares = vec![0; 256];
        table.look_up(Isa::detect(), &codes, &mut squares);
        for (code, square) in codes.into_iter().zip(squares) {
            let x = (f32::from(code) - 128.0) * 0.1;
            assert_eq!(square, output.code(x * x), "{x}");
        }
        assert_eq!(Table::new(input, output, |_| f32::NAN).codes[7], 0);
    }

    #[test]
    fn joined_channels_stand_in_order_and_in_one_scheme() {
        let (fine, coarse) = (scheme(0.5, 0), scheme(1.0, 10));
        let joining = Joining::new(&[(2, fine), (1, coarse)], coarse);
        let mut y = [0; 6];
        joining.join(Isa::detect(), 0, &[2, 4, 6, 8], &mut y);
        joining.join(Isa::detect(), 1, &[11, 12], &mut y);
        assert_eq!(y, [11, 12, 11, 13, 14, 12]);
    }
}
