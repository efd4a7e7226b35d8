//! Merging a configuration file with the files it inherits from and the command line.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};
use updraft_data::FileIdentity;

use super::error::{ConfigError, with_colon};
use super::key::Keys;
use super::malformed::message;
use crate::bounded::{self, CONFIG_BYTES};
use crate::error::RunError;

/// The key that names the files from which missing values are inherited.
pub(super) const INHERIT: &str = "inherit";

/// The largest number of files of a configuration.
const MOST_LAYERS: usize = 8;

/// The values of one configuration file.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The file's path, `file` for the main one, or `profile` and a profile's name.
    pub name: String,
    /// Its name in errors: the path.
    pub(super) place: String,
    pub(super) text: String,
    /// Its values, without `inherit`.
    pub table: Table,
}

/// The file at `place` with the given text, then each file it inherits from, in their order, and
/// those that each of them inherits from.
pub(super) fn layers(text: &str, place: &Path) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    add(text, place, &mut Vec::new(), &mut layers)?;
    layers[0].name = "file".to_owned();
    Ok(layers)
}

/// Adds a file and those it inherits from; `way` is the chain of files that leads to it.
fn add(
    text: &str,
    place: &Path,
    way: &mut Vec<FileIdentity>,
    layers: &mut Vec<Layer>,
) -> Result<(), ConfigError> {
    let name = place.display().to_string();
    let mut table = parse(text, &name)?;
    let parents = parents(table.remove(INHERIT), &name)?;
    layers.push(Layer { place: name.clone(), name, text: text.to_owned(), table });
    way.push(FileIdentity::of(place));
    for parent in parents {
        let parent = place.parent().unwrap_or(Path::new("")).join(parent);
        // One file may have several paths.
        if way.contains(&FileIdentity::of(&parent)) {
            return Err(ConfigError::Inherit { place: place.to_owned(), parent });
        }
        if layers.len() >= MOST_LAYERS {
            let (place, most) = (place.to_owned(), MOST_LAYERS);
            return Err(ConfigError::InheritMany { place, parent, most });
        }
        let text = bounded::read_text(&parent, CONFIG_BYTES).map_err(|error| {
            let (place, parent) = (place.to_owned(), parent.clone());
            let cause = match error {
                RunError::Io { cause, .. } => cause,
                other => std::io::Error::other(other.to_string()),
            };
            ConfigError::Parent { place, parent, cause }
        })?;
        add(&text, &parent, way, layers)?;
    }
    way.pop();
    Ok(())
}

/// The table of a text; errors name the place and the line.
pub(super) fn parse(text: &str, place: &str) -> Result<Table, ConfigError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let message = message(text, error.message(), error.span());
        ConfigError::Malformed { place: format!("{place}:{line}"), message }
    })
}

fn parents(value: Option<Value>, place: &str) -> Result<Vec<PathBuf>, ConfigError> {
    let refuse = |value: &Value| ConfigError::Value {
        place: format!("{place}: "),
        key: INHERIT.to_owned(),
        value: value.to_string(),
        expected: "the path of a file or a list of paths".to_owned(),
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(path)) => Ok(vec![path.into()]),
        Some(Value::Array(paths)) => paths
            .iter()
            .map(|path| path.as_str().map(PathBuf::from).ok_or_else(|| refuse(path)))
            .collect(),
        Some(other) => Err(refuse(&other)),
    }
}

/// Merges the layers, the first with the highest priority.
///
/// Tables are merged key by key, but one with a `kind` replaces another completely, because its
/// keys belong to its kind.
pub(super) fn merged(layers: &[Layer]) -> Table {
    let mut table = Table::new();
    for layer in layers.iter().rev() {
        lay(&mut table, &layer.table);
    }
    table
}

fn lay(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(under)), Value::Table(over)) if !over.contains_key("kind") => {
                lay(under, over);
            }
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Returns an error for the first key of a table that is not one of `keys`, and for a section that
/// is not a table; `at` returns the place of a path.
pub(super) fn refuse_unknown(
    table: &Table,
    keys: &[Keys],
    at: &dyn Fn(&str) -> String,
) -> Result<(), ConfigError> {
    let names: Vec<&str> = keys.iter().flat_map(|keys| keys.iter().map(|key| key.name())).collect();
    for (key, value) in table {
        let sections = names.iter().filter_map(|name| name.split_once('.'));
        let mut inside: Vec<&str> =
            sections.filter(|(section, _)| section == key).map(|(_, name)| name).collect();
        match value {
            Value::Table(inner) if !inside.is_empty() => {
                if let Some(unknown) = inner.keys().find(|name| !inside.contains(&name.as_str())) {
                    let path = format!("{key}.{unknown}");
                    return Err(unknown_key(at(&path), &path, &mut inside));
                }
            }
            _ if names.contains(&key.as_str()) => {}
            _ if !inside.is_empty() => {
                return Err(ConfigError::Value {
                    place: with_colon(&at(key)),
                    key: key.clone(),
                    value: value.to_string(),
                    expected: format!("a table, such as `[{key}]` with keys below it"),
                });
            }
            _ => {
                let mut tops: Vec<&str> = names
                    .iter()
                    .map(|name| name.split_once('.').map_or(*name, |(section, _)| section))
                    .chain([INHERIT])
                    .collect();
                return Err(unknown_key(at(key), key, &mut tops));
            }
        }
    }
    Ok(())
}

/// Keys of a table that an error lists.
const MOST_LISTED: usize = 13;

/// The Jaro-Winkler similarity above which a name counts as a misspelling: a missing, doubled or
/// exchanged letter is above it, another word below.
const ALIKE: f64 = 0.85;

/// Whether a name is similar to one of `known`.
pub(super) fn is_misspelled(name: &str, known: &[&str]) -> bool {
    known.iter().any(|other| strsim::jaro_winkler(name, other) >= ALIKE)
}

/// The error for a key whose last part is not in `known`: suggests a similar one, or lists all of
/// them if they are few.
pub(super) fn unknown_key(place: String, key: &str, known: &mut Vec<&str>) -> ConfigError {
    known.sort_unstable();
    known.dedup();
    let (table, name) = key.rsplit_once('.').map_or(("", key), |(table, name)| (table, name));
    let whole = |name: &str| match table {
        "" => format!("`{name}`"),
        table => format!("`{table}.{name}`"),
    };
    let likeness = |other: &str| strsim::jaro_winkler(name, other);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let advice = match nearest {
        Some(nearest) if likeness(nearest) >= ALIKE => format!("did you mean {}?", whole(nearest)),
        _ if known.len() <= MOST_LISTED => format!("known here are `{}`", known.join("`, `")),
        _ => "`explain --keys TASK` lists the keys of a task".to_owned(),
    };
    ConfigError::UnknownKey { place, key: key.to_owned(), advice }
}

/// The file and line on which a key is given.
pub(super) fn at_line(place: &str, text: &str, path: &str) -> String {
    match line_of(text, path) {
        Some(line) => format!("{place}:{line}"),
        None => place.to_owned(),
    }
}

/// The line, counted from 1, on which a text gives the key of this path, or the innermost table on
/// the way to it; `None` if the path's first key is not in the text.
fn line_of(text: &str, path: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (mut table, mut offset) = (document.get_ref(), None);
    for name in path.split('.') {
        let Some((key, value)) = table.get_key_value(name) else { break };
        offset = Some(key.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    Some(text[..offset?].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> Layer {
        let table = toml::from_str(text).expect("valid");
        Layer { name: String::new(), place: String::new(), text: text.to_owned(), table }
    }

    #[test]
    fn tables_merge_key_by_key_but_kinds_replace_each_other() {
        let merged = merged(&[
            layer("[train]\nepochs = 3\nschedule = { kind = \"one-cycle\" }"),
            layer("[train]\nbatch = 8\nschedule = { kind = \"warmup-cosine\", warmup = 0.1 }"),
        ]);
        let train = merged["train"].as_table().expect("a table");
        assert_eq!((train["epochs"].as_integer(), train["batch"].as_integer()), (Some(3), Some(8)));
        assert_eq!(train["schedule"].as_table().expect("a table").len(), 1);
    }

    #[test]
    fn of_several_files_the_first_named_comes_first() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("written");
        };
        write("base.toml", "seed = 1\n[train]\nepochs = 1\nbatch = 1\n");
        write("long.toml", "inherit = \"base.toml\"\n[train]\nepochs = 2\n");
        write("wide.toml", "inherit = \"base.toml\"\n[train]\nepochs = 3\nbatch = 3\n");
        let text = "inherit = [\"long.toml\", \"wide.toml\"]\nname = \"both\"\n";
        let found =
            layers(text, &dir.path().join("c.toml")).expect("valid, though base comes twice");
        let merged = merged(&found);
        let train = merged["train"].as_table().expect("a table");
        assert_eq!((train["epochs"].as_integer(), train["batch"].as_integer()), (Some(2), Some(1)));
        assert_eq!(merged["seed"].as_integer(), Some(1));
        let names: Vec<&str> =
            found.iter().map(|layer| layer.name.rsplit('/').next().expect("a name")).collect();
        assert_eq!(names, ["file", "long.toml", "base.toml", "wide.toml", "base.toml"]);
    }

    #[test]
    fn files_that_inherit_from_each_other_are_refused() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::write(dir.path().join("a.toml"), "inherit = \"b.toml\"\n").expect("written");
        std::fs::write(dir.path().join("b.toml"), "inherit = \"a.toml\"\n").expect("written");
        let refused = layers("inherit = \"b.toml\"\n", &dir.path().join("a.toml"));
        assert!(matches!(refused, Err(ConfigError::Inherit { .. })), "{refused:?}");
    }

    #[test]
    fn files_that_inherit_from_each_other_by_other_paths_are_named_once() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(dir.path().join("sub")).expect("created");
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.toml"), "inherit = \"b.toml\"\n").expect("written");
        std::fs::write(path("b.toml"), "inherit = \"sub/../a.toml\"\n").expect("written");
        std::fs::write(path("own.toml"), "inherit = \"./sub/../own.toml\"\n").expect("written");
        let said = |name: &str| {
            let text = std::fs::read_to_string(path(name)).expect("text");
            layers(&text, &path(name)).expect_err("a circle").to_string()
        };
        let of = |name: &str| path(name).display().to_string();
        let expected = format!(
            "`{}` inherits from `{}`, which inherits from it, directly or through other files; \
             remove `inherit` from one of them",
            of("b.toml"),
            of("sub/../a.toml")
        );
        assert_eq!(said("a.toml"), expected);
        let own = said("own.toml");
        assert!(own.contains("own.toml`, which is the file itself; remove `inherit`"), "{own}");
        for at in 0..9 {
            let text = format!("inherit = \"{}.toml\"\n", at + 1);
            std::fs::write(path(&format!("{at}.toml")), text).expect("written");
        }
        let many = said("0.toml");
        let expected = "8.toml`, which would be file 9 of this configuration; at most 8 are read";
        assert!(many.contains(expected), "{many}");
    }

    #[test]
    fn the_line_of_a_key_is_found_in_sections_and_with_dots() {
        let text = "seed = 1\n[train]\n# more\nepochs = 3\nschedule = { kind = \"x\" }\n";
        assert_eq!(line_of(text, "seed"), Some(1));
        assert_eq!(line_of(text, "train.epochs"), Some(4));
        assert_eq!(line_of(text, "train.schedule.kind"), Some(5));
        assert_eq!(line_of("train.epochs = 3", "train.epochs"), Some(1));
        assert_eq!(
            line_of("# train.epochs = 1\n\ntrain = { a = 1, epochs = 3 }", "train.epochs"),
            Some(3)
        );
        let wide = "[data]\nmean = [\n  0.5,\n]\n[data.faults]\nkind = \"skip\"\nat_most = 0\n";
        assert_eq!(line_of(wide, "data.faults.at_most"), Some(7));
        assert_eq!(line_of(wide, "data.faults"), Some(5));
        assert_eq!(line_of(text, "model.kind"), None);
    }
}
