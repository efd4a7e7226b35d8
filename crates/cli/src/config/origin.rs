//! Where each value of a plan came from.

use toml::{Table, Value};

/// Who chose a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The configuration file.
    File,
    /// A `--set`, or another option of the command line.
    CommandLine,
    /// Nobody: the built-in default.
    Default,
}

impl Origin {
    /// The word shown to a person.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::CommandLine => "command line",
            Self::Default => "default",
        }
    }
}

/// Every value of a plan in order, as `(key, value, origin)`.
///
/// `file` is what the file says, `merged` the same with the command line laid over it.
pub(crate) fn origins(plan: &Table, file: &Table, merged: &Table) -> Vec<(String, String, Origin)> {
    let mut lines = Vec::new();
    walk(plan, &mut Vec::new(), &mut |path, value| {
        let origin = match (find(file, path), find(merged, path)) {
            (_, None) => Origin::Default,
            (given, Some(used)) if given == Some(used) => Origin::File,
            _ => Origin::CommandLine,
        };
        lines.push((path.join("."), value.to_string(), origin));
    });
    lines
}

fn walk<'a>(table: &'a Table, path: &mut Vec<&'a str>, see: &mut dyn FnMut(&[&str], &Value)) {
    for (key, value) in table {
        path.push(key);
        match value {
            Value::Table(inner) => walk(inner, path, see),
            other => see(path, other),
        }
        path.pop();
    }
}

fn find<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, tables) = path.split_last()?;
    let mut inner = table;
    for name in tables {
        inner = inner.get(*name)?.as_table()?;
    }
    inner.get(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_says_who_chose_it() {
        let table = |text: &str| toml::from_str::<Table>(text).expect("valid");
        let lines = origins(
            &table("seed = 2\n[train]\nepochs = 5\nbatch = 64"),
            &table("seed = 2\n[train]\nepochs = 3"),
            &table("seed = 2\n[train]\nepochs = 5"),
        );
        let found: Vec<_> = lines.iter().map(|(key, _, origin)| (key.as_str(), *origin)).collect();
        assert_eq!(
            found,
            [
                ("seed", Origin::File),
                ("train.batch", Origin::Default),
                ("train.epochs", Origin::CommandLine),
            ]
        );
    }
}
