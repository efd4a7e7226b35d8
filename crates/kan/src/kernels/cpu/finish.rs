//! Computes the gradients of coefficients and factors from sums over samples.

use updraft_simd::{Simd, dispatch};

/// For the sums `s` of a row of coefficients: writes `factors·s`, or `s` without factors, to the
/// gradients of the coefficients, and adds `coefficients·s` to the gradients of the factors.
#[inline(always)]
fn row<S: Simd>(
    simd: S,
    sums: &[f32],
    coefficients: &[f32],
    factors: Option<&[f32]>,
    spline: Option<&mut [f32]>,
    scaler: Option<&mut [f32]>,
) {
    // The last outputs, which do not fill a vector.
    let whole = sums.len() / S::LANES * S::LANES;
    let vectors = (0..whole).step_by(S::LANES).map(|start| start..start + S::LANES);
    if let Some(scaler) = scaler {
        for at in vectors.clone() {
            let product =
                simd.multiply(simd.read(&coefficients[at.clone()]), simd.read(&sums[at.clone()]));
            let total = simd.add(simd.read(&scaler[at.clone()]), product);
            simd.write(&mut scaler[at], total);
        }
        for at in whole..sums.len() {
            scaler[at] += coefficients[at] * sums[at];
        }
    }
    let Some(spline) = spline else { return };
    let Some(factors) = factors else { return spline.copy_from_slice(sums) };
    for at in vectors {
        let product = simd.multiply(simd.read(&factors[at.clone()]), simd.read(&sums[at.clone()]));
        simd.write(&mut spline[at], product);
    }
    for at in whole..sums.len() {
        spline[at] = factors[at] * sums[at];
    }
}

dispatch! {
    /// Computes `spline = factors·sums` and `scaler += coefficients·sums` for a row of
    /// coefficients, if these gradients are needed; without factors, they count as 1.
    pub(crate) fn finish_row(
        simd,
        sums: &[f32],
        coefficients: &[f32],
        factors: Option<&[f32]>,
        spline: Option<&mut [f32]>,
        scaler: Option<&mut [f32]>,
    ) {
        row(simd, sums, coefficients, factors, spline, scaler);
    }
}
