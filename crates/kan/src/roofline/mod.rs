//! The least time of a layer on a GPU, by the roofline model: bytes and operations of its kernels
//! over the rates of a device.
//!
//! ```
//! use updraft_kan::CubeForm;
//! use updraft_kan::roofline::{DeviceLimits, LayerCost, Limit, least_time};
//! use updraft_kan::slices::{Activation, Grid, LayerGeometry, Weights};
//!
//! let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
//! let layer = LayerGeometry::try_new(grid, 512, 512, Activation::Silu)?;
//! let weights = Weights { base: Some(&[]), scaler: Some(&[]), ..Weights::default() };
//! let cost = LayerCost::of(CubeForm::Dense, &layer, &weights, 8192).expect("nine rows an input");
//! assert_eq!(cost.forward[0].name, "dense_forward");
//!
//! let limits = DeviceLimits { flops_per_s: 50e12, bytes_per_s: 2e12 };
//! let least = least_time(&cost.forward, limits);
//! assert_eq!(least.limit, Limit::Arithmetic);
//! // The products of nine rows for each edge and sample take most of it.
//! let of_products = 2.0 * 8192.0 * 512.0 * 512.0 * 9.0 / 50e12;
//! assert!((1.0..1.05).contains(&(least.seconds / of_products)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Cubes::occupancy`] has the cubes of a kernel that a multiprocessor runs at a time.
//!
//! Bytes, launches, cubes and their shared memory are compared with what a device of CubeCL is asked
//! for, kernel by kernel, in `src/ops/cube/measured_cost.rs`: the sizes of the buffers that a kernel
//! reads and writes by the analysis of CubeCL's compiler, each counted once.
//! The model was not compared with the counters of a card.
//! It leaves out the time of launches, of caches and of shared memory, in which the sparse form reads
//! a weight for each product.

mod device_limits;
mod layer_cost;
mod occupancy;
#[cfg(test)]
mod tests;

pub use crate::kernels::cube_cost::{Cubes, KernelCost};
pub use device_limits::{DeviceLimits, LeastTime, Limit, least_time};
pub use layer_cost::LayerCost;
pub use occupancy::{MultiprocessorLimits, Occupancy, OccupancyLimit};
