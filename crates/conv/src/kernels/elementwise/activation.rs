//! Activations: fused into a convolution or a normalization, or as separate passes.

use updraft_simd::{Isa, Pieces, over, threads};

use super::function;

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Activation {
    /// `z`.
    #[default]
    Identity,
    /// `max(z, 0)`, with the slope 0 at 0; NaN stays NaN.
    Relu,
    /// `z/(1 + exp(−z))`, also called swish.
    ///
    /// # Source
    /// Elfwing, Uchibe, Doya 2017, arXiv:1702.03118, equation 5.
    Silu,
    /// `z` above 0, else `exp(z) − 1`.
    ///
    /// # Source
    /// Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289, equation 16 with α = 1.
    Elu,
    /// `z` above 0, else a slope times `z`; the slope at 0 is 1.
    ///
    /// # Source
    /// Maas, Hannun, Ng 2013, "Rectifier nonlinearities improve neural network acoustic models",
    /// section 2.
    LeakyRelu(Slope),
    /// `min(max(z, 0), 6)`, with the slope 0 at both ends.
    ///
    /// # Source
    /// Sandler et al. 2018, arXiv:1801.04381, section 3.
    Relu6,
    /// `z·min(max(z + 3, 0), 6)/6`, with the slopes of the lines outside at both ends.
    ///
    /// # Source
    /// Howard et al. 2019, arXiv:1905.02244, section 5.2.
    HardSwish,
    /// `z·Φ(z)` with the distribution function `Φ` of the normal distribution.
    ///
    /// # Source
    /// Hendrycks, Gimpel 2016, arXiv:1606.08415, section 2.
    Gelu,
}

/// The slope of a leaky rectifier below 0.
#[derive(Debug, Clone, Copy)]
pub struct Slope(f32);

impl Slope {
    /// A slope; 0.01 is usual.
    ///
    /// # Panics
    /// If it is not finite.
    #[must_use]
    pub const fn new(slope: f32) -> Self {
        assert!(slope.is_finite(), "a slope is finite");
        Self(slope)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f32 {
        self.0
    }
}

impl PartialEq for Slope {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Slope {}

impl std::hash::Hash for Slope {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl Activation {
    /// Whether the slope at `z` is that at its own result, so that a gradient needs no `z`.
    pub(crate) fn has_slopes_of_its_result(self) -> bool {
        match self {
            Self::Relu | Self::Relu6 => true,
            // A smaller slope takes normal numbers to -0.0, where the slope is that of 0.
            Self::LeakyRelu(Slope(slope)) => slope >= 1e-6,
            Self::Identity | Self::Silu | Self::Elu | Self::HardSwish | Self::Gelu => false,
        }
    }
}

/// Numbers that one thread computes at a time.
pub(crate) const PIECE: usize = 4096;

/// Computes `y = activation(x)` into pieces of [`PIECE`] numbers; SiLU, ELU and GELU within 4 units in
/// the last place.
pub(crate) fn activate_into<'a>(
    isa: Isa,
    activation: Activation,
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    asked_threads: usize,
) {
    let vectors = isa.vectors();
    over(y, &mut vec![(); threads(asked_threads)], |index, y, ()| {
        function::values(vectors, activation, &x[index * PIECE..][..y.len()], y);
    });
}

/// The gradient of [`activate_into`] from its input, `activation'(x)·dy`, written over `dy` in pieces
/// of [`PIECE`] numbers.
pub(crate) fn activate_gradient<'a>(
    isa: Isa,
    activation: Activation,
    x: &[f32],
    dy: impl Pieces<Piece = &'a mut [f32]>,
    asked_threads: usize,
) {
    let vectors = isa.vectors();
    over(dy, &mut vec![(); threads(asked_threads)], |index, dy, ()| {
        function::slopes(vectors, activation, &x[index * PIECE..][..dy.len()], dy);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use updraft_simd::Cut;
    use updraft_testing::normal;

    const ALL: [Activation; 8] = [
        Activation::Identity,
        Activation::Relu,
        Activation::Silu,
        Activation::Elu,
        Activation::LeakyRelu(Slope::new(0.125)),
        Activation::Relu6,
        Activation::HardSwish,
        Activation::Gelu,
    ];

    /// The function and its slope in f64, by their definitions.
    fn reference(activation: Activation, z: f64) -> [f64; 2] {
        let sigmoid = 1.0 / (1.0 + (-z).exp());
        match activation {
            Activation::Identity => [z, 1.0],
            Activation::Relu => [if z <= 0.0 { 0.0 } else { z }, f64::from(u8::from(z > 0.0))],
            Activation::Silu => [z * sigmoid, sigmoid * (1.0 + z * (1.0 - sigmoid))],
            Activation::Elu if z > 0.0 => [z, 1.0],
            Activation::Elu => [z.exp_m1(), z.exp()],
            Activation::LeakyRelu(_) if z < 0.0 => [0.125 * z, 0.125],
            Activation::LeakyRelu(_) => [z, 1.0],
            Activation::Relu6 if z >= 6.0 => [6.0, 0.0],
            Activation::Relu6 => [if z <= 0.0 { 0.0 } else { z }, f64::from(u8::from(z > 0.0))],
            Activation::HardSwish if z >= 3.0 => [z, 1.0],
            Activation::HardSwish if z <= -3.0 => [0.0, 0.0],
            Activation::HardSwish => [z * (z + 3.0) / 6.0, z / 3.0 + 0.5],
            Activation::Gelu => {
                let [distribution, density] = normal(z);
                [z * distribution, distribution + z * density]
            }
        }
    }

    fn run(isa: Isa, activation: Activation, x: &[f32], threads: usize) -> [Vec<f32>; 2] {
        let mut y = vec![f32::NAN; x.len()];
        activate_into(isa, activation, x, Cut::new(&mut y, PIECE), threads);
        let dy = |i| if i % 2 == 0 { 1.0 } else { -2.0 };
        let mut gradient: Vec<f32> = (0..x.len()).map(dy).collect();
        activate_gradient(isa, activation, x, Cut::new(&mut gradient, PIECE), threads);
        [y, gradient]
    }

    fn paths() -> impl Iterator<Item = Isa> {
        Isa::BASES.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn values_and_slopes_are_those_of_the_definitions() {
        let mut x: Vec<f32> = (-12_000..12_000).map(|step| step as f32 * 1e-3).collect();
        x.extend([0.0, -0.0, 1e-30, -1e-30, -3e-5, 88.0, -87.0, 100.0, -104.0, 1e30, -1e30]);
        for (isa, activation) in paths().flat_map(|isa| ALL.map(|activation| (isa, activation))) {
            let [y, dx] = run(isa, activation, &x, 1);
            for (i, &z) in x.iter().enumerate() {
                let [value, slope] = reference(activation, f64::from(z));
                let slope = if i % 2 == 0 { slope } else { -2.0 * slope };
                // A slope is a difference of products around 1, times a gradient up to 2.
                for (given, right, unit) in
                    [(y[i], value, value.abs() + 1e-32), (dx[i], slope, 4.0)]
                {
                    let error = (f64::from(given) - right).abs();
                    let context = format!("{isa} {activation:?} at {z}: {given} is not {right}");
                    assert!(error <= 4.0 * f64::from(f32::EPSILON) * unit, "{context}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_what_the_definition_makes_of_it() {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for (isa, activation) in paths().flat_map(|isa| ALL.map(|activation| (isa, activation))) {
            let [y, dx] = run(isa, activation, &x, 1);
            let right = x.map(|z| reference(activation, f64::from(z)));
            for i in 0..x.len() {
                let (given, right) = (f64::from(y[i]), right[i][0]);
                let same = given == right || (given.is_nan() && right.is_nan());
                assert!(same, "{isa} {activation:?} at {}: {given} is not {right}", x[i]);
            }
            // A rectifier's slope is 0 or 1; the slopes of the others depend on the point.
            let shows = matches!(
                activation,
                Activation::Silu | Activation::Elu | Activation::HardSwish | Activation::Gelu
            );
            assert_eq!(dx[0].is_nan(), shows, "{isa} {activation:?}");
        }
    }

    #[test]
    fn slopes_of_results_are_those_of_the_inputs_where_promised() {
        let smallest = f32::MIN_POSITIVE;
        let x = [-2.0, -1e-30, -smallest, -0.0, 0.0, smallest, 0.5, f32::INFINITY, f32::NAN];
        let least = Activation::LeakyRelu(Slope::new(1e-6));
        let promising = ALL.into_iter().chain([least]);
        let promising = promising.filter(|activation| activation.has_slopes_of_its_result());
        for (isa, activation) in promising.flat_map(|a| paths().map(move |isa| (isa, a))) {
            let [y, of_x] = run(isa, activation, &x, 1);
            let [_, of_y] = run(isa, activation, &y, 1);
            let bits = |slopes: Vec<f32>| slopes.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(of_x), bits(of_y), "{activation:?} {isa}");
        }
        let promised = ALL.map(Activation::has_slopes_of_its_result);
        assert_eq!(promised, [false, true, false, false, true, true, false, false]);
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let x: Vec<f32> = (0..3 * PIECE + 17).map(|i| (i as f32).sin() * 4.0).collect();
        for (isa, activation) in paths().flat_map(|isa| ALL.map(|activation| (isa, activation))) {
            let alone = run(isa, activation, &x, 1);
            for threads in [2, 3, 8] {
                assert_eq!(alone, run(isa, activation, &x, threads));
            }
        }
    }
}
