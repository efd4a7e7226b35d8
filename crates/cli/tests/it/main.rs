//! The command line from the outside: one file a subject.

mod bad_input;
mod batch_size;
mod command;
mod compare;
mod data;
mod determinism;
mod help;
mod hostile;
mod keys;
mod library;
mod lr_find;
mod pipeline;
mod quantize;
mod record;
mod regression;
mod resume;
#[cfg(unix)]
mod signals;
mod tasks;
mod train;
mod tune;
