//! Tiles multiplied by Rust, with the bits of the units.

use super::{Square, TILE_LANES, Tile, TilesAt};

/// The order of the terms of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// That of `TDPBF16PS`: of 32 terms, the even ones and the odd ones are summed in order, then both
    /// sums are added.
    Halves,
    /// That of `VDPBF16PS`: of each pair of terms first the odd one, then the even one.
    Pairs,
}

/// `c = a·b` of two tiles' rows and two tiles' columns.
pub(super) fn multiply(order: Order, c: &mut Square, a: [&[Tile]; 2], b: [&[Tile]; 2]) {
    let steps = a[0].len();
    assert_eq!([a[1].len(), b[0].len(), b[1].len()], [steps; 3], "tiles of a product");
    for (high, a) in a.into_iter().enumerate() {
        for (right, b) in b.into_iter().enumerate() {
            for row in 0..TILE_LANES {
                let mut sums = [0.0; TILE_LANES];
                for (a, b) in a.iter().zip(b) {
                    let row = &a.0[row * TILE_LANES..][..TILE_LANES];
                    match order {
                        Order::Halves => add_halves(row, b, &mut sums),
                        Order::Pairs => add_pairs(row, b, &mut sums),
                    }
                }
                c.0[high * TILE_LANES + row][right * TILE_LANES..][..TILE_LANES]
                    .copy_from_slice(&sums);
            }
        }
    }
}

/// The same of tiles anywhere in buffers.
pub(super) fn multiply_at(order: Order, c: &mut Square, a: TilesAt<'_>, b: TilesAt<'_>) {
    a.check();
    b.check();
    let [a, b] = [a, b].map(|tiles| [tiles.gathered(0), tiles.gathered(1)]);
    multiply(order, c, [&a[0], &a[1]], [&b[0], &b[1]]);
}

/// Adds the products of a row of pairs and a tile of columns, pair by pair.
fn add_pairs(row: &[u32], columns: &Tile, sums: &mut [f32; TILE_LANES]) {
    for (&a, columns) in row.iter().zip(columns.0.as_chunks::<TILE_LANES>().0) {
        let a = terms(a);
        for (sum, &b) in sums.iter_mut().zip(columns) {
            let b = terms(b);
            *sum = normal(normal(*sum + a[1] * b[1]) + a[0] * b[0]);
        }
    }
}

/// Adds the products of a row of pairs and a tile of columns, in halves.
fn add_halves(row: &[u32], columns: &Tile, sums: &mut [f32; TILE_LANES]) {
    let mut halves = [[0.0; TILE_LANES]; 2];
    for (&a, columns) in row.iter().zip(columns.0.as_chunks::<TILE_LANES>().0) {
        let a = terms(a);
        for (lane, &b) in columns.iter().enumerate() {
            let b = terms(b);
            for half in 0..2 {
                // The product of two numbers of 8 bits is exact.
                halves[half][lane] = normal(halves[half][lane] + a[half] * b[half]);
            }
        }
    }
    for (lane, sum) in sums.iter_mut().enumerate() {
        *sum = normal(*sum + normal(halves[0][lane] + halves[1][lane]));
    }
}

/// The two terms of a pair.
fn terms(pair: u32) -> [f32; 2] {
    [pair << 16, pair & 0xFFFF_0000].map(|bits| normal(f32::from_bits(bits)))
}

/// The number, or zero of its sign below the normal range.
fn normal(number: f32) -> f32 {
    if number.is_subnormal() { 0.0_f32.copysign(number) } else { number }
}
