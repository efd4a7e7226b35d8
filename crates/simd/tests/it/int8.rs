//! Vectors of bytes of every instruction set against integers by hand, lane by lane.
#![expect(unsafe_code, reason = "the methods take pointers")]

use proptest::prelude::*;
use updraft_simd::{Clamp, INT8_LANES, Int8, Int8Kernel, Isa, Plus};

/// The sets of this CPU.
fn sets() -> impl Iterator<Item = Isa> {
    Isa::DOTS.into_iter().filter(|isa| isa.is_available())
}

type Lanes = [i32; INT8_LANES];

/// Sums after each product, and lanes as they were read.
struct Arithmetic<'a> {
    sums: &'a Lanes,
    quad: [u8; 4],
    weights: &'a [[i8; 4]; INT8_LANES],
    pairs: [&'a [[i16; 2]; INT8_LANES]; 2],
    bytes: &'a [u8; INT8_LANES],
    signed: &'a [i8; INT8_LANES],
}

#[derive(Debug, PartialEq)]
struct Results {
    dot: Lanes,
    pairs: Lanes,
    multiplied: Lanes,
    added: Lanes,
    splat: Lanes,
    zero: Lanes,
    bytes: Lanes,
    signed: Lanes,
}

fn stored<S: Int8>(simd: S, lanes: S::Lanes) -> Lanes {
    let mut to = [7; INT8_LANES];
    // SAFETY: there is room for all lanes.
    unsafe { simd.store(to.as_mut_ptr(), lanes, INT8_LANES) };
    to
}

impl Int8Kernel for Arithmetic<'_> {
    type Output = Results;

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) -> Results {
        // SAFETY: these are sixteen lanes.
        let sums = unsafe { simd.load(self.sums.as_ptr()) };
        // SAFETY: these are four bytes.
        let quad = unsafe { simd.quad(self.quad.as_ptr()) };
        // SAFETY: these are 64 bytes.
        let weights = unsafe { simd.weights(self.weights.as_ptr().cast()) };
        let [a, b] = self.pairs.map(|pairs| {
            // SAFETY: these are sixteen lanes; a load may start anywhere.
            unsafe { simd.load(pairs.map(lane_of_pair).as_ptr()) }
        });
        // SAFETY: these are sixteen bytes.
        let bytes = unsafe { simd.widen(self.bytes.as_ptr()) };
        // SAFETY: these are sixteen bytes.
        let signed = unsafe { simd.widen_signed(self.signed.as_ptr()) };
        Results {
            dot: stored(simd, simd.dot(sums, quad, weights)),
            pairs: stored(simd, simd.dot_pairs(sums, a, b)),
            multiplied: stored(simd, simd.multiply_add(sums, bytes, signed)),
            added: stored(simd, simd.add(sums, bytes)),
            splat: stored(simd, simd.splat(self.sums[3])),
            zero: stored(simd, simd.zero()),
            bytes: stored(simd, bytes),
            signed: stored(simd, signed),
        }
    }
}

fn lane_of_pair([low, high]: [i16; 2]) -> i32 {
    i32::from(high) << 16 | i32::from(low.cast_unsigned())
}

/// `sums + Σ a[i]·b[i]`, which wraps around.
fn products<const N: usize>(
    sums: &Lanes,
    a: impl Fn(usize) -> [i32; N],
    b: impl Fn(usize) -> [i32; N],
) -> Lanes {
    std::array::from_fn(|lane| {
        let products = a(lane).into_iter().zip(b(lane)).map(|(a, b)| a.wrapping_mul(b));
        products.fold(sums[lane], i32::wrapping_add)
    })
}

fn sums() -> impl Strategy<Value = Lanes> {
    prop::array::uniform16(prop_oneof![
        -1_000_000..1_000_000,
        prop::sample::select(vec![i32::MIN, i32::MAX, 0, -1])
    ])
}

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(vec![0, 127, 128, 255])]
}

fn weight() -> impl Strategy<Value = i8> {
    prop_oneof![any::<i8>(), prop::sample::select(vec![-128, -127, 0, 127])]
}

/// Signed numbers of 16 bits; −2¹⁵ in both of a product's pairs leaves 32 bits, which no kernel does.
fn short() -> impl Strategy<Value = i16> {
    prop_oneof![-32_767_i16..=32_767, prop::sample::select(vec![-32_767, 0, 32_767])]
}

proptest! {
    #[test]
    fn sums_of_products_are_exact(
        start in sums(),
        quad in prop::array::uniform4(byte()),
        weights in prop::array::uniform16(prop::array::uniform4(weight())),
        pairs in prop::array::uniform2(prop::array::uniform16(prop::array::uniform2(short()))),
        bytes in prop::array::uniform16(byte()),
        signed in prop::array::uniform16(weight()),
    ) {
        let whole = |bytes: [i8; 4]| bytes.map(i32::from);
        let expected = Results {
            dot: products(&start, |_| quad.map(i32::from), |lane| whole(weights[lane])),
            pairs: products(
                &start,
                |lane| pairs[0][lane].map(i32::from),
                |lane| pairs[1][lane].map(i32::from),
            ),
            multiplied: products(&start, |lane| [bytes[lane].into()], |lane| [signed[lane].into()]),
            added: products(&start, |lane| [bytes[lane].into()], |_| [1]),
            splat: [start[3]; INT8_LANES],
            zero: [0; INT8_LANES],
            bytes: bytes.map(i32::from),
            signed: signed.map(i32::from),
        };
        for isa in sets() {
            let [a, b] = pairs.each_ref();
            let (sums, weights, bytes, signed) = (&start, &weights, &bytes, &signed);
            let kernel = Arithmetic { sums, quad, weights, pairs: [a, b], bytes, signed };
            prop_assert_eq!(&isa.int8_vectors().run(kernel), &expected, "{}", isa);
        }
    }

    #[test]
    fn products_of_bytes_that_fit_16_bits_are_summed_exactly(
        start in sums(),
        bytes in prop::array::uniform16((byte(), 0_u8..=1, byte(), 0_u8..=1)),
        weights in prop::array::uniform16(prop::array::uniform4(-127_i8..=127)),
    ) {
        // 255·127 + 127 is less than 2¹⁵.
        let bytes = bytes.map(<[u8; 4]>::from);
        let expected = products(
            &start,
            |lane| bytes[lane].map(i32::from),
            |lane| weights[lane].map(i32::from),
        );
        for isa in sets() {
            let kernel = Within { sums: &start, bytes: &bytes, weights: &weights };
            prop_assert_eq!(isa.int8_vectors().run(kernel), expected, "{}", isa);
        }
    }

    #[test]
    fn sums_are_written_as_they_are_scaled_and_as_codes(
        sums in prop::array::uniform16(-60_000..60_000),
        scales in prop::array::uniform16(-0.01_f32..0.01),
        codes in prop::array::uniform16(byte()),
        zeros in prop::array::uniform2(byte()),
        bounds in prop::array::uniform2(byte()),
        factor in -1.0_f32..1.0,
        before in prop::array::uniform16(-9.0_f32..9.0),
        count in 0..=INT8_LANES,
    ) {
        let clamp = Clamp::new(zeros[0], bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
        let plus = Plus { zero: zeros[1].into(), factor };
        let expected = Written {
            whole: std::array::from_fn(|lane| if lane < count { sums[lane] } else { 7 }),
            scaled: std::array::from_fn(|lane| {
                if lane < count { (sums[lane] as f32 * scales[lane]).to_bits() } else { 0 }
            }),
            clamped: std::array::from_fn(|lane| {
                if lane < count { clamp.apply(sums[lane] as f32 * scales[lane]) } else { 7 }
            }),
            summed: std::array::from_fn(|lane| {
                let steps = (i32::from(codes[lane]) - plus.zero) as f32 * plus.factor;
                let sum = sums[lane] as f32 * scales[lane] + steps;
                if lane < count { clamp.apply(sum) } else { 7 }
            }),
            added: std::array::from_fn(|lane| {
                (before[lane] + sums[lane] as f32 * factor).to_bits()
            }),
        };
        for isa in sets() {
            let (sums, scales, codes, before) = (&sums, &scales, &codes[..count], &before);
            let kernel = Writes { sums, scales, codes, clamp, plus, before, count };
            prop_assert_eq!(&isa.int8_vectors().run(kernel), &expected, "{}", isa);
        }
    }
}

struct Within<'a> {
    sums: &'a Lanes,
    bytes: &'a [[u8; 4]; INT8_LANES],
    weights: &'a [[i8; 4]; INT8_LANES],
}

impl Int8Kernel for Within<'_> {
    type Output = Lanes;

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) -> Lanes {
        let bytes = self.bytes.map(i32::from_le_bytes);
        let weights = self.weights.map(|bytes| i32::from_le_bytes(bytes.map(i8::cast_unsigned)));
        let [sums, bytes, weights] = [self.sums, &bytes, &weights].map(|lanes| {
            // SAFETY: these are sixteen lanes.
            unsafe { simd.load(lanes.as_ptr()) }
        });
        stored(simd, simd.dot_within_16_bits(sums, bytes, weights))
    }
}

struct Writes<'a> {
    sums: &'a Lanes,
    scales: &'a [f32; INT8_LANES],
    codes: &'a [u8],
    clamp: Clamp,
    plus: Plus,
    before: &'a [f32; INT8_LANES],
    count: usize,
}

#[derive(Debug, PartialEq)]
struct Written {
    whole: Lanes,
    scaled: [u32; INT8_LANES],
    clamped: [u8; INT8_LANES],
    summed: [u8; INT8_LANES],
    added: [u32; INT8_LANES],
}

impl Int8Kernel for Writes<'_> {
    type Output = Written;

    #[inline(always)]
    fn run<S: Int8>(self, simd: S) -> Written {
        let Self { sums, scales, codes, clamp, plus, before, count } = self;
        // SAFETY: these are sixteen lanes.
        let sums = unsafe { simd.load(sums.as_ptr()) };
        let (mut whole, mut scaled, mut added) = ([7; INT8_LANES], [0.0; INT8_LANES], *before);
        let (mut clamped, mut summed) = ([7; INT8_LANES], [7; INT8_LANES]);
        // SAFETY: there is room for sixteen.
        unsafe { simd.store(whole.as_mut_ptr(), sums, count) };
        // SAFETY: the same, and there are sixteen scales.
        unsafe { simd.store_scaled(scaled.as_mut_ptr(), sums, scales.as_ptr(), count) };
        // SAFETY: the same.
        unsafe { simd.store_clamped(clamped.as_mut_ptr(), sums, scales.as_ptr(), clamp, count) };
        let to = summed.as_mut_ptr();
        // SAFETY: the same, and there are `count` codes.
        unsafe {
            simd.store_summed(to, sums, scales.as_ptr(), codes.as_ptr(), plus, clamp, count);
        }
        // SAFETY: there are sixteen numbers.
        unsafe { simd.add_scaled(added.as_mut_ptr(), sums, plus.factor) };
        let (scaled, added) = (scaled.map(f32::to_bits), added.map(f32::to_bits));
        Written { whole, scaled, clamped, summed, added }
    }
}

#[test]
fn a_set_that_the_cpu_lacks_has_no_vectors_of_bytes() {
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let panic = std::panic::catch_unwind(|| isa.int8_vectors()).expect_err("it is not there");
        let message = panic.downcast_ref::<String>().expect("a text");
        assert_eq!(*message, format!("this CPU has no {isa}"));
    }
}

#[test]
fn the_vectors_are_those_of_the_set() {
    struct Name;

    impl Int8Kernel for Name {
        type Output = Isa;

        #[inline(always)]
        fn run<S: Int8>(self, _: S) -> Isa {
            S::ISA
        }
    }

    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        // Tiles are no vectors: those of AVX-512 VNNI go with them.
        let dot = if isa == Isa::AmxInt8 { Isa::Avx512Vnni } else { isa.dot() };
        assert_eq!(isa.int8_vectors().run(Name), dot);
    }
}
