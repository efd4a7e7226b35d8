//! The binary `updraft`.

use std::process::ExitCode;

use updraft::EndWithoutMemory;

#[global_allocator]
static MEMORY: EndWithoutMemory = EndWithoutMemory::new(
    "make `train.batch` or the model smaller, or raise the limit; what was saved is whole, and \
     `train --resume` continues from there",
);

fn main() -> ExitCode {
    updraft::run(std::env::args_os()).into()
}
