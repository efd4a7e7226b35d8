//! `test-device` and `gpu-report`: the code for GPUs on a device, tested and then timed.

mod cases;
mod command;
mod options;
mod outcome;
mod record;
mod report;
mod suite;

pub(crate) use command::{check, test_device};
pub(crate) use report::report;
