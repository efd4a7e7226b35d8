//! A configuration file with the files it inherits from, laid over each other.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::ConfigError;
use super::raw::{RawFile, RawInherit};

/// The key that names the files whose values stand in for those that are left out.
const INHERIT: &str = "inherit";

/// More files than anybody needs on the way to one configuration.
const MOST_LAYERS: usize = 8;

/// A file's values, with the name that `explain` shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) table: Table,
}

/// The file at `place` with the given text, then each file it inherits from, in their order, with
/// what that inherits from in turn.
///
/// Each is read on its own first, as a file of the task `R`, so that its faults carry its name and
/// line.
pub(crate) fn layers<R: RawFile>(text: &str, place: &Path) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    add::<R>(text, place, &mut Vec::new(), &mut layers)?;
    layers[0].name = "file".to_owned();
    Ok(layers)
}

/// Adds a file and what it inherits from; `way` led to it.
fn add<R: RawFile>(
    text: &str,
    place: &Path,
    way: &mut Vec<PathBuf>,
    layers: &mut Vec<Layer>,
) -> Result<(), ConfigError> {
    let (raw, mut table) = R::read(text, place, &[])?;
    table.remove(INHERIT);
    layers.push(Layer { name: place.display().to_string(), table });
    way.push(place.to_owned());
    for parent in raw.inherit().into_iter().flat_map(RawInherit::paths) {
        let parent = place.parent().unwrap_or(Path::new("")).join(parent);
        if way.contains(&parent) || layers.len() >= MOST_LAYERS {
            return Err(ConfigError::Inherit { place: place.to_owned(), parent });
        }
        let text = std::fs::read_to_string(&parent)
            .map_err(|source| ConfigError::Read { path: parent.clone(), source })?;
        add::<R>(&text, &parent, way, layers)?;
    }
    way.pop();
    Ok(())
}

/// The first layer laid over the second, over the third, and so on.
///
/// Tables are merged key by key, but one with a `kind` takes the place of another as a whole: its
/// keys belong to its kind.
pub(crate) fn merged(layers: &[Layer]) -> Table {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawConfig;

    fn layer(text: &str) -> Layer {
        Layer { name: String::new(), table: toml::from_str(text).expect("valid") }
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
        let found = layers::<RawConfig>(text, &dir.path().join("c.toml"))
            .expect("valid, though base comes twice");
        let merged = merged(&found);
        let train = merged["train"].as_table().expect("a table");
        assert_eq!((train["epochs"].as_integer(), train["batch"].as_integer()), (Some(2), Some(1)));
        assert_eq!(merged["seed"].as_integer(), Some(1));
        let names: Vec<&str> =
            found.iter().map(|layer| layer.name.rsplit('/').next().expect("a name")).collect();
        assert_eq!(names, ["file", "long.toml", "base.toml", "wide.toml", "base.toml"]);
    }

    #[test]
    fn a_file_inherits_from_a_file_beside_it_and_never_from_itself() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(dir.path().join("profiles")).expect("created");
        let parent = dir.path().join("profiles/slow.toml");
        std::fs::write(&parent, "[train]\nepochs = 99\n").expect("written");
        let child = dir.path().join("c.toml");
        let text = "inherit = \"profiles/slow.toml\"\n";
        let found = layers::<RawConfig>(text, &child).expect("valid");
        assert_eq!(found.len(), 2);
        assert_eq!(merged(&found)["train"]["epochs"].as_integer(), Some(99));
        assert!(found[1].name.ends_with("slow.toml"));

        std::fs::write(&parent, "inherit = \"slow.toml\"\n").expect("written");
        let error = layers::<RawConfig>(text, &child).expect_err("a circle").to_string();
        assert!(error.contains("inherits"), "{error}");
        std::fs::write(&parent, "[train]\nepoch = 99\n").expect("written");
        let error = layers::<RawConfig>(text, &child).expect_err("unknown").to_string();
        assert!(error.contains("slow.toml:2: unknown key `epoch`"), "{error}");
        let error = layers::<RawConfig>("inherit = \"gone.toml\"", &child)
            .expect_err("missing")
            .to_string();
        assert!(error.contains("gone.toml"), "{error}");
    }
}
