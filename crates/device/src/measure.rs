//! Measured rates of a device: matrix products by dtype, and copies.

use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

use crate::error::DeviceError;
use crate::facts::{FLOATS, dtype_name};
use crate::memory::synchronize;

/// How often each measurement is repeated, after one run that is not counted.
const RUNS: usize = 7;

/// The shortest run, so that the launch and the clock have little effect.
const LONG_ENOUGH: Duration = Duration::from_millis(10);

/// Sides of the matrices: doubled from the first until a run is long enough.
///
/// The largest product needs 400 MB in f64, so that it fits on a small card.
const SIDES: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// Sizes of the copied tensor in numbers of four bytes: 16 to 256 MiB.
const LENGTHS: [usize; 3] = [1 << 22, 1 << 24, 1 << 26];

/// Measured rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// Square matrix products, one entry for each dtype that the device computes in.
    pub matmul: Vec<MatmulRate>,
    /// Bytes read plus bytes written by `x + 1` in f32, in 10⁹ a second.
    pub copy_gbytes_per_s: Spread,
}

/// How fast a device multiplies matrices of one dtype.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatmulRate {
    /// The dtype's name.
    pub dtype: String,
    /// Rows and columns of the matrices.
    pub side: usize,
    /// In 10⁹ operations a second, `2·side³` for each product.
    pub gflops: Spread,
}

/// Median and range of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The slowest run.
    pub low: f64,
    /// The fastest run.
    pub high: f64,
    /// How many runs there were.
    pub runs: usize,
}

impl Spread {
    /// The spread of these rates.
    fn of(mut rates: Vec<f64>) -> Self {
        rates.sort_by(f64::total_cmp);
        let last = rates.len() - 1;
        let median = f64::midpoint(rates[last / 2], rates[last.div_ceil(2)]);
        Self { median, low: rates[0], high: rates[last], runs: rates.len() }
    }
}

/// Measures a device in every dtype that it computes in.
///
/// The timed part is the operation with the allocation of its result and the wait for the device;
/// inputs are created before. Takes about a second on a CPU.
///
/// # Errors
/// [`DeviceError::Failed`] if the device stops computing.
pub fn measure(device: &Device) -> Result<Measured, DeviceError> {
    measure_dtypes(device, &FLOATS)
}

/// The same in those of some dtypes that the device computes in.
///
/// # Errors
/// As [`measure`].
pub fn measure_dtypes(device: &Device, dtypes: &[DType]) -> Result<Measured, DeviceError> {
    let mut matmul = Vec::new();
    for dtype in dtypes.iter().copied().filter(|&dtype| device.supports_dtype(dtype)) {
        matmul.push(matmul_rate(device, dtype)?);
    }
    let copies = |&length: &usize| {
        let source = Tensor::<1>::ones([length], (device, DType::F32));
        // Read and written, four bytes each.
        let gbytes = 8e-9 * length as f64;
        (gbytes, move || source.clone().add_scalar(1.0))
    };
    let (_, copy_gbytes_per_s) = rate(device, &LENGTHS, copies)?;
    Ok(Measured { matmul, copy_gbytes_per_s })
}

fn matmul_rate(device: &Device, dtype: DType) -> Result<MatmulRate, DeviceError> {
    let dtype_of = FloatDType::from(dtype);
    let products = |&side: &usize| {
        let factor = Tensor::<2>::full([side, side], 0.5, (device, DType::F32)).cast(dtype_of);
        let gflop = 2e-9 * (side as f64).powi(3);
        (gflop, move || factor.clone().matmul(factor.clone()))
    };
    let (side, gflops) = rate(device, &SIDES, products)?;
    Ok(MatmulRate { dtype: dtype_name(dtype), side, gflops })
}

/// Repeats the work at the first size that takes long enough, or at the largest.
///
/// `work` returns, for a size, its amount in 10⁹ units, and a closure that does it.
fn rate<const D: usize, F: Fn() -> Tensor<D>>(
    device: &Device,
    sizes: &[usize],
    work: impl Fn(&usize) -> (f64, F),
) -> Result<(usize, Spread), DeviceError> {
    let mut sizes = sizes.iter().peekable();
    loop {
        let size = sizes.next().expect("the loop ends at the last size");
        let (amount, run) = work(size);
        // The first run compiles and allocates.
        timed(device, &run)?;
        if timed(device, &run)? < LONG_ENOUGH && sizes.peek().is_some() {
            continue;
        }
        let mut rates = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            rates.push(amount / timed(device, &run)?.as_secs_f64());
        }
        return Ok((*size, Spread::of(rates)));
    }
}

/// The time of an operation, until the device has finished it.
fn timed<const D: usize>(
    device: &Device,
    run: &impl Fn() -> Tensor<D>,
) -> Result<Duration, DeviceError> {
    let start = Instant::now();
    // A backend with fusion skips tensors without owners when the device is synchronized.
    let result = run();
    synchronize(device)?;
    let elapsed = start.elapsed();
    drop(result);
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_middle_between_its_ends() {
        let odd = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((odd.low, odd.median, odd.high, odd.runs), (1.0, 2.0, 3.0, 3));
        let even = Spread::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!((even.low, even.median, even.high, even.runs), (1.0, 2.5, 4.0, 4));
    }
}
