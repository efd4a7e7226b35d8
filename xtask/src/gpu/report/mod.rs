//! `gpu-report`: a card checked, tested and timed beside PyTorch, in one folder.

mod amd;
mod checks;
mod command;
mod entries;
mod facts;
mod folder;
mod lines;
mod meter;
mod nvidia;
mod page;
mod python;
mod reach;
mod samples;
mod size;

pub(crate) use command::report;
pub(super) use size::Size;
