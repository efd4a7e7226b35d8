//! Where each value of a plan came from.

use toml::{Table, Value};

use super::key_path::find;
use super::layers::Layer;

/// Every value of a plan in order, as `(key, value, origin)`.
///
/// The origin is the name of the first layer that gives the value, `command line` if `--set` or
/// another option gave it, or `default`. `merged` is the result of merging all layers and the
/// command line.
pub fn origins(plan: &Table, layers: &[Layer], merged: &Table) -> Vec<(String, String, String)> {
    let mut lines = Vec::new();
    walk(plan, &mut Vec::new(), &mut |path, value| {
        let key = path.join(".");
        let used = find(merged, &key);
        let given = layers.iter().find_map(|layer| Some((find(&layer.table, &key)?, &layer.name)));
        let origin = match (given, used) {
            (_, None) => "default",
            (Some((given, name)), Some(used)) if given == used => name,
            _ => "command line",
        };
        lines.push((key, value.to_string(), origin.to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_says_who_chose_it() {
        let table = |text: &str| toml::from_str::<Table>(text).expect("valid");
        let layer = |name: &str, text: &str| Layer {
            name: name.to_owned(),
            place: String::new(),
            text: text.to_owned(),
            table: table(text),
        };
        let lines = origins(
            &table("seed = 2\n[train]\nbatch = 64\nclip_norm = 1.0\nepochs = 5"),
            &[
                layer("file", "seed = 2\n[train]\nepochs = 3"),
                layer("profile.toml", "seed = 1\n[train]\nclip_norm = 1.0"),
            ],
            &table("seed = 2\n[train]\nclip_norm = 1.0\nepochs = 5"),
        );
        let found: Vec<_> =
            lines.iter().map(|(key, _, origin)| (key.as_str(), origin.as_str())).collect();
        assert_eq!(
            found,
            [
                ("seed", "file"),
                ("train.batch", "default"),
                ("train.clip_norm", "profile.toml"),
                ("train.epochs", "command line"),
            ]
        );
    }
}
