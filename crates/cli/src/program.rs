//! The name of this program, and next commands.

use std::path::Path;

use crate::terminal::say;

/// The name under which the program was started: `updraft`, or the name set by a runner.
pub(crate) fn name() -> String {
    let first = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&first).file_stem().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "updraft".to_owned())
}

/// Prints a next command to standard error: the arguments follow the program's name.
pub(crate) fn next(arguments: &str) {
    // On one line of any length, so that it can be copied.
    say(&format!("next     {} {arguments}", name()));
}

/// An argument for a shell, quoted if necessary.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c) || !c.is_ascii();
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_a_shell_would_change_is_quoted() {
        assert_eq!(quoted("train.batch=32"), "train.batch=32");
        assert_eq!(quoted("data/my files"), "'data/my files'");
        assert_eq!(quoted("train.loss={kind=\"focal\"}"), "'train.loss={kind=\"focal\"}'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
