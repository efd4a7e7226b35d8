//! Products of large matrices against definitions in f64, in f32 and in bf16.

use updraft_simd::{Bf16Unit, Cut, Isa, round_to_bf16};
use updraft_testing::{assert_close, scattered, tolerance};

use super::{Bf16Scratch, Factor, LinearScratch, MatrixProduct};

fn paths() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

/// The transpose of a matrix of rows of `len` numbers.
fn transposed(numbers: &[f32], len: usize) -> Vec<f32> {
    (0..len).flat_map(|column| numbers[column..].iter().step_by(len).copied()).collect()
}

#[test]
fn products_of_matrices_are_those_of_the_definition_on_any_number_of_threads() {
    let sizes = [
        [1, 1, 1],
        [5, 7, 3],
        [97, 300, 33],
        [200, 16, 64],
        [64, 520, 300],
        [300, 300, 33],
        [270, 520, 48],
    ];
    for [rows, terms, columns] in sizes {
        let [a, b] = [(1, rows * terms), (2, terms * columns)].map(|(s, len)| scattered(s, len));
        let bias = scattered(3, columns);
        let (a_columns, b_columns) = (transposed(&a, terms), transposed(&b, columns));
        let mut reference = Vec::new();
        for row in a.chunks(terms) {
            for (column, &bias) in bias.iter().enumerate() {
                let terms = row.iter().zip(b[column..].iter().step_by(columns));
                let sum: f64 = terms.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                reference.push(sum + f64::from(bias));
            }
        }
        for isa in paths() {
            let mut first: Option<Vec<f32>> = None;
            for a in [Factor::Rows(&a), Factor::Columns(&a_columns)] {
                for b in [Factor::Rows(&b), Factor::Columns(&b_columns)] {
                    for threads in [1, 2, 3, 8] {
                        let product =
                            MatrixProduct { rows, terms, columns, a, b, bias: Some(&bias) };
                        let mut to = vec![f32::NAN; rows * columns];
                        let pieces = Cut::new(&mut to, product.piece(threads));
                        product.compute(isa, pieces, &mut LinearScratch::default(), threads);
                        assert_close(&to, &reference, tolerance::F32);
                        assert_eq!(first.get_or_insert_with(|| to.clone()), &to, "{isa} {threads}");
                    }
                }
            }
        }
    }
}

#[test]
fn products_in_bf16_are_those_of_rounded_factors_on_any_number_of_threads_by_any_unit() {
    for [rows, terms, columns] in [[1, 1, 1], [5, 7, 3], [97, 300, 33], [270, 33, 20], [64, 96, 64]]
    {
        let [a, b] = [(1, rows * terms), (2, terms * columns)].map(|(s, len)| scattered(s, len));
        let bias = scattered(3, columns);
        let rounded = |numbers: &[f32]| {
            let mut to = vec![0.0; numbers.len()];
            round_to_bf16(Isa::Portable.vectors(), numbers, &mut to);
            to
        };
        let (exact_a, exact_b) = (rounded(&a), rounded(&b));
        let (a_columns, b_columns) = (transposed(&a, terms), transposed(&b, columns));
        let mut reference = Vec::new();
        for row in exact_a.chunks(terms) {
            for (column, &bias) in bias.iter().enumerate() {
                let terms = row.iter().zip(exact_b[column..].iter().step_by(columns));
                let sum: f64 = terms.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                reference.push(sum + f64::from(bias));
            }
        }
        let (unit, mut first) = (Bf16Unit::detect(), None::<Vec<f32>>);
        for (isa, unit) in paths().flat_map(|isa| [unit.plain(), unit].map(|unit| (isa, unit))) {
            for a in [Factor::Rows(&a), Factor::Columns(&a_columns)] {
                for b in [Factor::Rows(&b), Factor::Columns(&b_columns)] {
                    for threads in [1, 2, 3] {
                        let bias = Some(&bias[..]);
                        let product = MatrixProduct { rows, terms, columns, a, b, bias };
                        let mut to = vec![f32::NAN; rows * columns];
                        let pieces = Cut::new(&mut to, product.bf16_piece(threads));
                        let scratch = &mut Bf16Scratch::default();
                        product.compute_in_bf16(unit, isa, pieces, scratch, threads);
                        assert_close(&to, &reference, tolerance::F32);
                        assert_eq!(first.get_or_insert_with(|| to.clone()), &to, "{isa} {unit:?}");
                    }
                }
            }
        }
    }
}
