//! `test-device` and `gpu-report`: the code for GPUs on a device, tested and then timed.

mod cases;
mod command;
mod driver;
mod extent;
mod options;
mod outcome;
mod record;
mod report;
mod suite;

pub(crate) use command::{check, quick, test_device};
pub(crate) use report::report;
