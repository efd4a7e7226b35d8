//! U-Nets: outputs beside other libraries, and what a configuration decides.

mod config;
mod formula;
mod golden;
mod images;
mod volumes;
