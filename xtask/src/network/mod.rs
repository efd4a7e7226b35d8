//! `test-network`: a short training on ranks in network namespaces.

mod command;
mod measured;
mod namespaces;
mod options;

pub(crate) use command::run;
