//! The binary `updraft`.

use std::process::ExitCode;

use updraft::EndWithoutMemory;
use updraft_allocator::ReuseBlocks;

#[global_allocator]
static MEMORY: EndWithoutMemory<ReuseBlocks> = EndWithoutMemory::new(
    ReuseBlocks::new(),
    "make `train.batch` or the model smaller, or raise the limit; what was saved is whole, and \
     `train --resume` continues from there",
);

fn main() -> ExitCode {
    // The allocator keeps memory for all operations; what some of them keep for themselves would add
    // to the peak.
    updraft_simd::set_memory_capacity(0);
    updraft::run(std::env::args_os()).into()
}
