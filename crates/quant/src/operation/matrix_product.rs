//! Products of two matrices that both depend on the input, as in attention, in f32 only.

use serde::{Deserialize, Serialize};
use updraft_simd::matrix::{
    Left, Right, Rows, Target, multiply, pack, pack_transposed, padded, width,
};
use updraft_simd::{Isa, Kernel, Simd};

use super::definition::{FloatJob, Operation, Registered, Shapes, Work};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Attribute, Exact, Graph, GraphError, Node, Value};

/// `factor·a·b` of `[…, rows, depth]` and `[…, depth, columns]`, or of their transposes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatrixProduct {
    /// Whether each factor has its last two axes swapped.
    is_transposed: [bool; 2],
    factor: Exact<f32>,
}

/// The sizes of one product, and how many there are.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    count: usize,
    rows: usize,
    depth: usize,
    columns: usize,
}

impl Graph {
    /// `a·b` of two tensors of matrices, `[…, rows, depth]` and `[…, depth, columns]`, or of tensors
    /// with these two axes swapped where `is_transposed` says so; it has no int8 kernel and runs in
    /// f32.
    ///
    /// # Errors
    /// [`GraphError`] if their shapes do not fit.
    pub fn matrix_product(
        &mut self,
        name: &str,
        a: Value,
        b: Value,
        is_transposed: [bool; 2],
    ) -> Result<Value, GraphError> {
        let operation = MatrixProduct { is_transposed, factor: Exact(1.0) };
        self.layer(name, Work::new(operation, Parameters::default()), &[a, b])
    }
}

impl MatrixProduct {
    fn sizes(self, x: &[Vec<usize>]) -> Option<Sizes> {
        let [a, b] = [&x[0], &x[1]].map(|shape| shape.split_last_chunk::<2>());
        let ((before, a), (others, b)) = (a?, b?);
        let turned = |sides: &[usize; 2], is: bool| if is { [sides[1], sides[0]] } else { *sides };
        let [rows, depth] = turned(a, self.is_transposed[0]);
        let [other, columns] = turned(b, self.is_transposed[1]);
        let count = before.iter().product();
        (before == others && depth == other).then_some(Sizes { count, rows, depth, columns })
    }
}

impl Operation for MatrixProduct {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 2)?;
        lens.check(0, 0)?;
        let wrong = || OperationError::Matrices { shapes: x.to_vec() };
        let Sizes { rows, columns, .. } = self.sizes(x).ok_or_else(wrong)?;
        if !self.factor.0.is_normal() {
            return Err(OperationError::Factor { factor: self.factor.0 });
        }
        Ok([&x[0][..x[0].len() - 2], &[rows, columns]].concat())
    }

    fn multiply_adds(&self, shapes: &Shapes) -> usize {
        let sizes = self.sizes(&shapes.x).expect("checked with its shape");
        sizes.count * sizes.rows * sizes.depth * sizes.columns
    }

    fn run_f32(&self, FloatJob { shapes, x, y, space, .. }: FloatJob<'_>) {
        let sizes = self.sizes(&shapes.x).expect("checked with its shape");
        let vectors = Isa::detect().vectors();
        vectors.run(Products { operation: *self, sizes, x, y, space: &mut space.panels });
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let mut axes: Vec<i64> = (0..=node.shapes().y.len() as i64).collect();
        let last = axes.len() - 1;
        axes.swap(last - 1, last);
        let mut factors = Vec::new();
        for (position, is_transposed) in self.is_transposed.into_iter().enumerate() {
            let mut x = node.read(position);
            if is_transposed {
                let turned = vec![("perm", Attribute::Integers(axes.clone()))];
                x = node.push("Transpose", &[&x], &format!(".{position}"), turned);
            }
            factors.push(x);
        }
        if self.factor.0 == 1.0 {
            return node.push("MatMul", &[&factors[0], &factors[1]], "", vec![]);
        }
        let y = node.push("MatMul", &[&factors[0], &factors[1]], ".product", vec![]);
        let factor = node.constant(".factor", self.factor.0);
        node.push("Mul", &[&y, &factor], "", vec![])
    }

    /// A factor of either tensor is a factor of the product.
    fn scale_input(&self, parameters: &Parameters, _: usize, by: &Parameters) -> Option<Work> {
        let factor = Exact(self.factor.0 * by.factor()?);
        let scaled = factor.0.is_normal().then_some(Self { factor, ..*self })?;
        Some(Work::new(scaled, parameters.clone()))
    }
}

impl Registered for MatrixProduct {
    const KIND: &'static str = "matrix_product";

    #[cfg(feature = "burn")]
    fn record(
        reader: &mut crate::module::Reader<'_>,
        operation: &burn::backend::ir::OperationIr,
        _: Option<&str>,
    ) -> super::Recorded {
        use burn::backend::ir::{FloatOperationIr, ModuleOperationIr, OperationIr};

        use crate::module::Meaning;

        let product = match operation {
            OperationIr::Float(_, FloatOperationIr::Matmul(product)) => product,
            OperationIr::Module(ModuleOperationIr::Attention(attention)) => {
                return reader.attention(attention).map(Some);
            }
            _ => return Ok(None),
        };
        for tensor in [&product.lhs, &product.rhs] {
            if let Meaning::Constant(_) = reader.meaning(tensor)? {
                return Ok(None);
            }
        }
        let (a, a_transposed) = reader.matrices(&product.lhs)?;
        let (b, b_transposed) = reader.matrices(&product.rhs)?;
        let name = reader.numbered("product");
        let y = reader.graph.matrix_product(&name, a, b, [a_transposed, b_transposed]);
        reader.layer(y).map(Some)
    }
}

struct Products<'a> {
    operation: MatrixProduct,
    sizes: Sizes,
    x: &'a [&'a [f32]],
    y: &'a mut [f32],
    space: &'a mut Vec<f32>,
}

impl Kernel for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { operation, sizes, x, y, space } = self;
        let Sizes { count, rows, depth, columns } = sizes;
        if count * rows * depth * columns == 0 {
            return;
        }
        let (width, pitch) = (width::<S>(), padded::<S>(columns));
        space.resize(depth * pitch + rows * pitch, 0.0);
        let (panels, sums) = space.split_at_mut(depth * pitch);
        let [a_transposed, b_transposed] = operation.is_transposed;
        let Exact(factor) = operation.factor;
        for product in 0..count {
            let a = &x[0][product * rows * depth..][..rows * depth];
            let numbers = &x[1][product * depth * columns..][..depth * columns];
            if b_transposed {
                let rows = Rows { numbers, pitch: depth, count: columns, len: depth };
                pack_transposed(simd, width, rows, panels);
            } else {
                pack(width, Rows { numbers, pitch: columns, count: depth, len: columns }, panels);
            }
            let left = Left::new(a, if a_transposed { [1, rows] } else { [depth, 1] });
            let right = Right { panels, pitch: [depth * width, width] };
            let sizes = [rows, depth, columns];
            multiply(simd, sizes, left, right, sums, pitch, Target::Replaced);
            let y = &mut y[product * rows * columns..][..rows * columns];
            for (y, sums) in y.chunks_exact_mut(columns).zip(sums.chunks_exact(pitch)) {
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = factor * sum);
            }
        }
    }
}
