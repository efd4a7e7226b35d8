//! Tiles against products in f64, and the unit against plain Rust.

use super::*;
use crate::Isa;

/// Numbers of several sizes and both signs, by a seed.
fn numbers(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state as f32 / u32::MAX as f32 - 0.5) * (1 << (state % 5)) as f32
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn transposed(numbers: &[f32], len: usize) -> Vec<f32> {
    (0..len).flat_map(|column| numbers[column..].iter().step_by(len).copied()).collect()
}

/// The unit of this processor, and Rust with its bits.
fn units() -> [Bf16Unit; 2] {
    [Bf16Unit::detect().plain(), Bf16Unit::detect()]
}

/// A square of a product by a unit, from rows of the left factor and columns of the right one.
fn square(
    unit: Bf16Unit,
    isa: Isa,
    a: Bf16Factor<'_>,
    b: Bf16Factor<'_>,
    sizes: [usize; 3],
) -> Square {
    let [rows, terms, columns] = sizes;
    let steps = terms.div_ceil(TILE_TERMS);
    let tiles = || [0, 1].map(|_| vec![Tile::default(); steps]);
    let (mut left, mut right, vectors) = (tiles(), tiles(), isa.vectors());
    for half in 0..2 {
        let first = half * TILE_LANES;
        let count = |all: usize| TILE_LANES.min(all.saturating_sub(first));
        if count(rows) > 0 {
            pack_left(vectors, a, [first, 0], [count(rows), terms], &mut left[half]);
        }
        if count(columns) > 0 {
            pack_right(vectors, b, [first, 0], [count(columns), terms], &mut right[half]);
        }
    }
    let mut c = Square::default();
    let [left, right] = [&left, &right].map(|tiles| tiles.each_ref().map(|tiles| &tiles[..]));
    unit.run(|multiply| multiply(&mut c, left, right));
    c
}

#[test]
fn products_of_tiles_are_those_of_rounded_factors_with_the_same_bits_on_every_path() {
    for sizes in [[1, 1, 1], [32, 32, 32], [16, 5, 17], [31, 333, 20], [32, 64, 7]] {
        let [rows, terms, columns] = sizes;
        let (a, b) = (numbers(1, rows * terms), numbers(2, terms * columns));
        let (of_a, of_b) = (transposed(&a, terms), transposed(&b, columns));
        let factor = |numbers, pitch, rows_are_lanes| Bf16Factor { numbers, pitch, rows_are_lanes };
        let lefts = [factor(&a, terms, true), factor(&of_a, rows, false)];
        let rights = [factor(&b, columns, false), factor(&of_b, terms, true)];
        let (mut exact_a, mut exact_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
        round_to_bf16(Isa::Portable.vectors(), &a, &mut exact_a);
        round_to_bf16(Isa::Portable.vectors(), &b, &mut exact_b);
        let mut first: Option<Square> = None;
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            for unit in units() {
                for (left, right) in lefts.into_iter().flat_map(|a| rights.map(|b| (a, b))) {
                    let c = square(unit, isa, left, right, sizes);
                    let bits = |c: &Square| c.0.map(|row| row.map(f32::to_bits));
                    assert_eq!(bits(first.get_or_insert(c)), bits(&c), "{unit:?} {isa} {sizes:?}");
                }
            }
        }
        let c = first.expect("a path").0;
        for (row, c) in c.iter().enumerate() {
            for (column, &c) in c.iter().enumerate() {
                if row >= rows || column >= columns {
                    assert_eq!(c.to_bits(), 0, "outside of the result");
                    continue;
                }
                let products = (0..terms).map(|term| {
                    f64::from(exact_a[row * terms + term])
                        * f64::from(exact_b[term * columns + column])
                });
                let (sum, size) =
                    products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
                let error = (f64::from(c) - sum).abs();
                assert!(error <= 1e-6 * size + 1e-30, "{c} is not {sum} at {row}, {column}");
            }
        }
    }
}

#[test]
fn what_is_not_finite_or_below_the_normal_range_is_the_same_on_every_path() {
    let special = [f32::INFINITY, f32::NEG_INFINITY, 1e-40, -1e-40, f32::MIN_POSITIVE, 3e38, -0.0];
    let (mut a, mut b) = (numbers(3, 32 * 40), numbers(4, 40 * 32));
    for (index, &number) in special.iter().enumerate() {
        a[index * 40 + 3] = number;
        b[5 * 32 + index] = number;
    }
    // A product below the normal range, and a factor below it, as the only terms of their rows.
    a[20 * 40..22 * 40].fill(0.0);
    (a[20 * 40], a[21 * 40], b[0], b[1]) = (1e-30, 1e-39, 1e-10, 1e10);
    a[30 * 40 + 1] = f32::NAN;
    let a = Bf16Factor { numbers: &a, pitch: 40, rows_are_lanes: true };
    let b = Bf16Factor { numbers: &b, pitch: 32, rows_are_lanes: false };
    let all = units().map(|unit| square(unit, Isa::Portable, a, b, [32, 40, 32]));
    for (row, (plain, unit)) in all[0].0.iter().zip(&all[1].0).enumerate() {
        for (plain, unit) in plain.iter().zip(unit) {
            let is_same = plain.to_bits() == unit.to_bits() || plain.is_nan() && unit.is_nan();
            assert!(is_same, "{plain} and {unit} in row {row}");
        }
        assert_eq!(plain.iter().all(|c| c.is_nan()), row == 30, "row {row}");
    }
}

#[test]
fn tiles_anywhere_in_a_buffer_are_multiplied_as_packed_ones() {
    // Windows at odd terms of a buffer, in rows of 70.
    let (pitch, offsets) = (70, [0, 3, 37, 1]);
    let bits = |seed, len| -> Vec<u32> {
        let numbers = numbers(seed, 2 * len);
        numbers.chunks(2).map(|pair| bf16_bits(pair[0]) | bf16_bits(pair[1]) << 16).collect()
    };
    let (of_a, of_b) = (bits(5, 40 * pitch), bits(6, 40 * pitch));
    let a_steps = TileSteps::new(offsets.to_vec());
    let b_steps = TileSteps::new(offsets.map(|offset| 2 * offset).to_vec());
    let a = TilesAt { pairs: &of_a, pitch, first: [5, 5 + 16 * pitch], steps: &a_steps };
    let b = TilesAt { pairs: &of_b, pitch, first: [0, 32], steps: &b_steps };
    let packed = [a, b].map(|tiles| [tiles.gathered(0), tiles.gathered(1)]);
    assert_eq!(packed[0][0][1].0[0] & 0xFFFF, of_a[4] & 0xFFFF, "term 5 + 3");
    assert_eq!(packed[0][1][0].0[TILE_LANES] >> 16, of_a[(5 + 17 * pitch) / 2 + 1] & 0xFFFF);
    for unit in units() {
        let mut expected = Square::default();
        let [a_tiles, b_tiles] = packed.each_ref().map(|tiles| tiles.each_ref().map(|t| &t[..]));
        unit.run(|multiply| multiply(&mut expected, a_tiles, b_tiles));
        let mut c = Square::default();
        unit.run_at(|multiply| multiply(&mut c, a, b));
        assert_eq!(
            c.0.map(|row| row.map(f32::to_bits)),
            expected.0.map(|row| row.map(f32::to_bits))
        );
        let outside = TilesAt { first: [0, 2 * of_a.len()], ..a };
        let refused = std::panic::catch_unwind(|| {
            unit.run_at(|multiply| multiply(&mut Square::default(), outside, b));
        });
        assert!(refused.is_err(), "a tile outside of its buffer");
    }
}

#[test]
fn both_orders_are_sums_of_the_same_terms() {
    let (a, b) = (numbers(7, 32 * 96), numbers(8, 96 * 32));
    let a = Bf16Factor { numbers: &a, pitch: 96, rows_are_lanes: true };
    let b = Bf16Factor { numbers: &b, pitch: 32, rows_are_lanes: false };
    let [halves, pairs] = [Bf16Order::Halves, Bf16Order::Pairs]
        .map(|order| square(Bf16Unit::Plain(order), Isa::Portable, a, b, [32, 96, 32]));
    let mut differs = false;
    for (halves, pairs) in halves.0.as_flattened().iter().zip(pairs.0.as_flattened()) {
        assert!((halves - pairs).abs() <= 1e-3, "{halves} and {pairs}");
        differs |= halves.to_bits() != pairs.to_bits();
    }
    assert!(differs, "the orders round differently");
}

#[test]
fn numbers_are_rounded_to_the_nearest_bf16_and_ties_to_the_even_one() {
    let cases = [
        (1.0, 1.0),
        (1.003_906_25, 1.0),
        (1.011_718_75, 1.015_625),
        (-1.003_907, -1.007_812_5),
        (f32::INFINITY, f32::INFINITY),
        (3.4e38, f32::INFINITY),
        (-0.0, -0.0),
        (f32::MIN_POSITIVE, f32::MIN_POSITIVE),
        (f32::from_bits(0x007F_FFFF), 0.0),
    ];
    let [given, right]: [Vec<f32>; 2] =
        [cases.iter().map(|case| case.0).collect(), cases.iter().map(|case| case.1).collect()];
    for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
        let mut to = vec![f32::NAN; given.len()];
        round_to_bf16(isa.vectors(), &given, &mut to);
        assert_eq!(to, right, "{isa}");
        round_to_bf16(isa.vectors(), &[f32::NAN, f32::from_bits(0x7F80_0001)], &mut to[..2]);
        assert!(to[0].is_nan() && to[1].is_nan(), "{isa}");
    }
}

#[test]
fn whole_tiles_have_the_same_bits_by_every_instruction_set() {
    const PITCH: usize = 37;
    let mut from = numbers(9, TILE_TERMS * PITCH);
    let largest_below_normal = f32::from_bits(0x007F_FFFF);
    let special = [f32::INFINITY, -1e-40, largest_below_normal, f32::MIN_POSITIVE, 3.4e38, -0.0];
    for (index, &number) in special.iter().enumerate() {
        from[index * (PITCH + 1)] = number;
    }
    from[PITCH + 2] = f32::NAN;
    for rows_are_lanes in [true, false] {
        let factor = Bf16Factor { numbers: &from, pitch: PITCH, rows_are_lanes };
        let pack = |isa: Isa| {
            let mut tiles = [[Tile::default()]; 2];
            let [left, right] = &mut tiles;
            pack_left(isa.vectors(), factor, [0, 0], [TILE_LANES, TILE_TERMS], left);
            pack_right(isa.vectors(), factor, [0, 0], [TILE_LANES, TILE_TERMS], right);
            tiles.map(|[tile]| tile.0)
        };
        let expected = pack(Isa::Portable);
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            assert_eq!(pack(isa), expected, "{isa}, rows are lanes: {rows_are_lanes}");
        }
    }
}
