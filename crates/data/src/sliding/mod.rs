//! Sliding-window inference: applies a model to overlapping windows of whole volumes and blends the
//! results.

mod accumulate;
mod blend;
mod config;
mod engine;
mod grid;
mod journal;
mod mirror;
mod planes;
mod predict;
mod progress;
mod reduce;

pub use blend::Blend;
pub use config::SlidingWindow;
pub use engine::{ModelError, WindowBatch, WindowModel};
pub use grid::Padding;
pub use predict::{PredictConfig, Predicted, PredictionStart};
pub use progress::WindowProgress;
pub use reduce::Reduction;
