//! The binary `updraft`.

use std::process::ExitCode;

fn main() -> ExitCode {
    updraft::run(std::env::args_os()).into()
}
