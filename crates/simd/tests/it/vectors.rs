//! Vectors of every instruction set against arithmetic by hand, lane by lane.

use std::cmp::Ordering;

use proptest::prelude::*;
use updraft_simd::{Isa, Kernel, MAX_LANES, Simd};

/// The sets of this CPU.
fn sets() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    // NaN is NaN, whatever else it says.
    numbers.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

/// A function of some vectors, lane by lane.
struct Lanewise<'a, const N: usize, F> {
    function: F,
    inputs: [&'a [f32]; N],
}

/// What [`Lanewise`] applies to vectors.
trait OfVectors<const N: usize> {
    fn apply<S: Simd>(&self, simd: S, inputs: [S::Vector; N]) -> S::Vector;
}

impl<const N: usize, F: OfVectors<N>> Kernel for Lanewise<'_, N, F> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<f32> {
        let mut result = vec![0.0; S::LANES];
        let inputs = self.inputs.map(|input| simd.read(input));
        simd.write(&mut result, self.function.apply(simd, inputs));
        result
    }
}

/// Checks a method against a function of numbers.
fn agrees<const N: usize, F: OfVectors<N> + Copy>(
    method: F,
    inputs: [[f32; MAX_LANES]; N],
    expected: impl Fn([f32; N]) -> f32,
) -> Result<(), TestCaseError> {
    for isa in sets() {
        let kernel = Lanewise { function: method, inputs: inputs.each_ref().map(|x| &x[..]) };
        let got = isa.vectors().run(kernel);
        let by_hand: Vec<f32> =
            (0..got.len()).map(|lane| expected(inputs.map(|input| input[lane]))).collect();
        prop_assert_eq!(bits(&got), bits(&by_hand), "{}", isa);
    }
    Ok(())
}

macro_rules! methods {
    ($($name:ident = |$simd:ident, [$($input:ident),+]: $count:literal| $method:expr;)+) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl OfVectors<$count> for $name {
            #[inline(always)]
            fn apply<S: Simd>(&self, $simd: S, [$($input),+]: [S::Vector; $count]) -> S::Vector {
                $method
            }
        }
    )+};
}

methods! {
    Add = |simd, [a, b]: 2| simd.add(a, b);
    Subtract = |simd, [a, b]: 2| simd.subtract(a, b);
    Multiply = |simd, [a, b]: 2| simd.multiply(a, b);
    Divide = |simd, [a, b]: 2| simd.divide(a, b);
    Floor = |simd, [a]: 1| simd.floor(a);
    Smaller = |simd, [a, b]: 2| simd.smaller(a, b);
    Larger = |simd, [a, b]: 2| simd.larger(a, b);
    WhereBelow = |simd, [a, b, c, d]: 4| simd.where_below([a, b], c, d);
    UnlessDiffers = |simd, [a, b, c]: 3| simd.unless_differs([a, b], c);
    PowerOfTwo = |simd, [n]: 1| simd.power_of_two(n);
}

fn lanes() -> impl Strategy<Value = [f32; MAX_LANES]> {
    let number = prop_oneof![
        8 => -1e3_f32..1e3,
        1 => (-4_i8..4).prop_map(f32::from),
        1 => prop::sample::select(vec![0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38]),
    ];
    prop::array::uniform16(number)
}

proptest! {
    #[test]
    fn arithmetic_is_that_of_each_lane(a in lanes(), b in lanes(), c in lanes(), d in lanes()) {
        agrees(Add, [a, b], |[a, b]| a + b)?;
        agrees(Subtract, [a, b], |[a, b]| a - b)?;
        agrees(Multiply, [a, b], |[a, b]| a * b)?;
        agrees(Divide, [a, b], |[a, b]| a / b)?;
        agrees(Smaller, [a, b], |[a, b]| if a < b { a } else { b })?;
        agrees(Larger, [a, b], |[a, b]| if a > b { a } else { b })?;
        agrees(WhereBelow, [a, b, c, d], |[a, b, c, d]| if a < b { c } else { d })?;
        agrees(UnlessDiffers, [a, b, c], |[a, b, c]| match a.partial_cmp(&b) {
            Some(Ordering::Less | Ordering::Greater) => 0.0,
            _ => c,
        })?;
    }

    #[test]
    fn whole_numbers_are_found_and_raised_to(
        a in prop::array::uniform16(-4e6_f32..4e6),
        n in prop::array::uniform16(-126_i32..128),
    ) {
        agrees(Floor, [a], |[a]| a.floor())?;
        agrees(PowerOfTwo, [n.map(|n| n as f32)], |[n]| 2.0_f32.powi(n as i32))?;
    }

    #[test]
    fn a_product_is_added_with_one_rounding_or_two(a in lanes(), b in lanes(), sum in lanes()) {
        for isa in sets() {
            for (got, lane) in isa.vectors().run(Products([sum, a, b])).into_iter().zip(0..) {
                let fused = a[lane].mul_add(b[lane], sum[lane]);
                let rounded = if isa == Isa::Portable { sum[lane] + a[lane] * b[lane] } else { fused };
                prop_assert_eq!(bits(&[got]), bits(&[rounded]), "{}", isa);
            }
        }
    }

    #[test]
    fn integers_are_written_as_whole_numbers_bytes_and_pairs(
        whole in prop::array::uniform16(0_u32..1 << 22),
        bytes in prop::array::uniform4(prop::array::uniform16(0_u8..=255)),
        pairs in prop::array::uniform2(prop::array::uniform16(prop::num::i16::ANY)),
    ) {
        for isa in sets() {
            let lanes = isa.lanes();
            let [wholes, quads, twos] = isa.vectors().run(Integers { whole, bytes, pairs });
            prop_assert_eq!(&wholes, &whole[..lanes]);
            for lane in 0..lanes {
                prop_assert_eq!(quads[lane].to_le_bytes(), bytes.map(|byte| byte[lane]));
                let expected = pairs.map(|half| half[lane].cast_unsigned());
                prop_assert_eq!([twos[lane] as u16, (twos[lane] >> 16) as u16], expected);
            }
        }
    }

    #[test]
    fn squares_are_transposed_and_vectors_summed(
        square in prop::collection::vec(-64_i8..64, MAX_LANES * MAX_LANES),
        pitches in [0_usize..5, 0_usize..5],
    ) {
        let square: Vec<f32> = square.into_iter().map(f32::from).collect();
        for isa in sets() {
            let lanes = isa.lanes();
            let (columns, sums) = isa.vectors().run(Squares { square: &square, pitches });
            let at = |row: usize, column: usize| square[row * lanes + column];
            for row in 0..lanes {
                for column in 0..lanes {
                    prop_assert_eq!(columns[column * (lanes + pitches[1]) + row], at(row, column));
                }
                // Small whole numbers: no order of additions rounds.
                let sum: f32 = (0..lanes).map(|column| at(row, column)).sum();
                prop_assert_eq!(sums[row], sum);
            }
        }
    }

    #[test]
    fn keys_are_found_in_their_order(
        keys in prop::collection::vec(0_u32..4, 0..80),
        wanted in 0_u32..5,
    ) {
        let indices = 0..keys.len() as u32;
        let expected: Vec<u32> = indices.filter(|&index| keys[index as usize] == wanted).collect();
        for isa in sets() {
            prop_assert_eq!(&isa.vectors().run(Search { keys: &keys, wanted }), &expected);
        }
    }

    #[test]
    fn parts_of_a_vector_are_read_and_written(
        numbers in prop::array::uniform16(-9.0_f32..9.0),
        count in 1..=MAX_LANES,
    ) {
        for isa in sets() {
            let lanes = isa.lanes();
            let count = count.min(lanes);
            let (read, written) = isa.vectors().run(Ends { numbers, count });
            let expected = |before: f32| -> Vec<f32> {
                let kept = std::iter::repeat_n(before, lanes - count);
                kept.chain(numbers[lanes - count..lanes].iter().copied()).collect()
            };
            prop_assert_eq!(read, expected(0.0));
            prop_assert_eq!(written, expected(7.0));
        }
    }
}

struct Products([[f32; MAX_LANES]; 3]);

impl Kernel for Products {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<f32> {
        let [sum, a, b] = self.0.each_ref().map(|numbers| simd.read(numbers));
        let mut result = vec![0.0; S::LANES];
        simd.write(&mut result, simd.multiply_add(sum, a, b));
        result
    }
}

struct Integers {
    whole: [u32; MAX_LANES],
    bytes: [[u8; MAX_LANES]; 4],
    pairs: [[i16; MAX_LANES]; 2],
}

impl Kernel for Integers {
    type Output = [Vec<u32>; 3];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [Vec<u32>; 3] {
        let mut written = [const { Vec::new() }; 3].map(|_: Vec<u32>| vec![0; S::LANES]);
        let whole = self.whole.map(|whole| whole as f32);
        simd.write_whole(&mut written[0], simd.read(&whole));
        let bytes = self.bytes.map(|bytes| simd.read(&bytes.map(f32::from)));
        simd.write_bytes(&mut written[1], bytes);
        let pairs = self.pairs.map(|pairs| simd.read(&pairs.map(f32::from)));
        simd.write_pairs(&mut written[2], pairs);
        written
    }
}

struct Squares<'a> {
    square: &'a [f32],
    /// Numbers between two rows, and between two columns.
    pitches: [usize; 2],
}

impl Kernel for Squares<'_> {
    type Output = (Vec<f32>, Vec<f32>);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (Vec<f32>, Vec<f32>) {
        let [from_pitch, to_pitch] = self.pitches.map(|between| S::LANES + between);
        let rows = self.square.chunks(S::LANES).take(S::LANES);
        let padded: Vec<f32> = rows
            .flat_map(|row| {
                let between = std::iter::repeat_n(&9.0, from_pitch - S::LANES);
                row.iter().chain(between).copied().collect::<Vec<_>>()
            })
            .collect();
        let mut columns = vec![0.0; S::LANES * to_pitch];
        let mut sums = vec![0.0; S::LANES];
        #[expect(unsafe_code, reason = "the methods take pointers")]
        // SAFETY: both hold the lanes' number of rows and columns, so far apart.
        unsafe {
            simd.transpose(padded.as_ptr(), from_pitch, columns.as_mut_ptr(), to_pitch);
        }
        #[expect(unsafe_code, reason = "the methods take pointers")]
        // SAFETY: the square holds that many vectors.
        let vector = unsafe { simd.sums(self.square.as_ptr()) };
        simd.write(&mut sums, vector);
        (columns, sums)
    }
}

struct Search<'a> {
    keys: &'a [u32],
    wanted: u32,
}

impl Kernel for Search<'_> {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<u32> {
        let mut to = vec![u32::MAX; self.keys.len() + MAX_LANES];
        let found = simd.indices_of(self.keys, self.wanted, &mut to);
        to.truncate(found);
        to
    }
}

struct Ends {
    numbers: [f32; MAX_LANES],
    count: usize,
}

impl Kernel for Ends {
    type Output = (Vec<f32>, Vec<f32>);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (Vec<f32>, Vec<f32>) {
        let (mut read, mut written) = (vec![0.0; S::LANES], vec![7.0; S::LANES]);
        #[expect(unsafe_code, reason = "the methods take pointers")]
        // SAFETY: there are sixteen numbers.
        let last = unsafe { simd.load_last(self.numbers.as_ptr(), self.count) };
        simd.write(&mut read, last);
        let all = simd.read(&self.numbers);
        #[expect(unsafe_code, reason = "the methods take pointers")]
        // SAFETY: there is room for a vector.
        unsafe {
            simd.store_last(written.as_mut_ptr(), all, self.count);
        }
        (read, written)
    }
}

#[test]
fn zeros_of_both_signs_are_zero_and_nothing_else_is() {
    struct IsZero([f32; MAX_LANES]);

    impl Kernel for IsZero {
        type Output = bool;

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> bool {
            simd.is_zero(simd.read(&self.0))
        }
    }

    for isa in sets() {
        let mut numbers = [0.0; MAX_LANES];
        numbers[1] = -0.0;
        assert!(isa.vectors().run(IsZero(numbers)));
        for other in [1e-45, f32::NAN, -3.0] {
            numbers[isa.lanes() - 1] = other;
            assert!(!isa.vectors().run(IsZero(numbers)), "{other}");
        }
    }
}

#[test]
fn a_set_that_the_cpu_lacks_is_refused_by_name() {
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let panic = std::panic::catch_unwind(|| isa.vectors()).expect_err("it is not there");
        let message = panic.downcast_ref::<String>().expect("a text");
        assert_eq!(*message, format!("this CPU has no {isa}"));
    }
}
