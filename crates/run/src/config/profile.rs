//! Profiles: values of the keys that change speed and memory, and not what is learned.

use std::path::Path;

use toml::{Table, Value};
use updraft_data::system_message;

use super::error::ConfigError;
use super::key::{AnyKey, Keys};
use super::layers::{Layer, at_line, parse, unknown_key};
use crate::bounded;

/// The profiles that every build has. `configs/profiles/` has the same texts, and is not part of
/// this package.
const BUILT_IN: [(&str, &str); 3] = [
    ("default", include_str!("profiles/default.toml")),
    ("throughput", include_str!("profiles/throughput.toml")),
    ("low-memory", include_str!("profiles/low-memory.toml")),
];

/// Values of the keys that change speed and memory, and results by no more than rounding:
/// [`Key::performance`](crate::Key::performance).
///
/// A profile takes precedence over configuration files, and `--set` over a profile. Keys of a
/// profile that the configuration does not read are left out.
///
/// # Example
/// ```
/// use std::path::Path;
/// use updraft_run::{Plan, Profile, RecomputePlan, Settings, TASKS};
///
/// let text = "train.workers = 3\n";
/// let settings = Settings::load(text, Path::new("c.toml"), &[])?;
/// let profile = Profile::open("low-memory")?;
/// let planned = Plan::of(TASKS, settings.with_profile(profile))?;
/// assert_eq!(planned.plan.train.recompute, RecomputePlan::ElementWise);
/// // This task reads no volumes.
/// assert_eq!(planned.settings.unused_keys()[0].key, "data.memory_mib");
/// # Ok::<(), updraft_run::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub(super) layer: Layer,
}

/// A key that has no effect: of a profile, because the configuration does not read it, or of a plan,
/// because of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedKey {
    /// The key.
    pub key: String,
    /// The reason, without a full stop.
    pub reason: String,
}

impl Profile {
    /// The names of the profiles that every build has.
    pub const NAMES: [&'static str; BUILT_IN.len()] = [BUILT_IN[0].0, BUILT_IN[1].0, BUILT_IN[2].0];

    /// The profile of this name, or the one in a file whose name ends in `.toml`.
    ///
    /// # Errors
    /// [`ConfigError::NoProfile`] for another name or a file that cannot be read, and
    /// [`ConfigError::Malformed`] for one that is not TOML.
    pub fn open(name: &str) -> Result<Self, ConfigError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            let table = parse(text, &format!("the profile {name}"))?;
            return Ok(Self::of(name, format!("the profile {name}"), (*text).to_owned(), table));
        }
        let path = Path::new(name);
        let is_file = path.extension().is_some_and(|ending| ending == "toml");
        let text = match is_file {
            true => bounded::read_config(path).map_err(|error| system_message(&error)),
            false => Err("it is not the path of a .toml file".to_owned()),
        };
        let text = text.map_err(|reason| ConfigError::NoProfile {
            name: name.to_owned(),
            known: Self::NAMES.join("`, `"),
            reason,
        })?;
        let table = parse(&text, name)?;
        Ok(Self::of(name, name.to_owned(), text, table))
    }

    fn of(name: &str, place: String, text: String, table: Table) -> Self {
        Self { layer: Layer { name: format!("profile {name}"), place, text, table } }
    }

    /// Returns an error for a key that no task has, and for one that is not a key of performance.
    pub(super) fn check(layer: &Layer, every: &[Keys]) -> Result<(), ConfigError> {
        let keys = || every.iter().flat_map(|keys| keys.iter().copied());
        let mut allowed: Vec<&str> =
            keys().filter(|key| key.is_performance()).map(AnyKey::name).collect();
        allowed.sort_unstable();
        allowed.dedup();
        for key in paths(&layer.table) {
            let place = at_line(&layer.place, &layer.text, &key);
            match keys().find(|known| known.name() == key) {
                Some(known) if known.is_performance() => {}
                // Not a key of the registry: files inherit, profiles do not.
                known if known.is_some() || key == "inherit" => {
                    let allowed = allowed.join("`, `");
                    return Err(ConfigError::NotForProfile { place, key, allowed });
                }
                _ => return Err(unknown_key(place, &key, &mut allowed)),
            }
        }
        Ok(())
    }

    /// Takes the keys out of a profile's table that are not among those of a task.
    pub(super) fn take_unknown(table: &mut Table, known: &[Keys]) -> Vec<String> {
        let is_known =
            |path: &String| known.iter().any(|keys| keys.iter().any(|key| key.name() == path));
        let unknown: Vec<String> =
            paths(table).into_iter().filter(|path| !is_known(path)).collect();
        for path in &unknown {
            let Some((section, name)) = path.split_once('.') else {
                table.remove(path);
                continue;
            };
            let Some(inner) = table.get_mut(section).and_then(Value::as_table_mut) else {
                continue;
            };
            inner.remove(name);
            if inner.is_empty() {
                // The task may not have the section either.
                table.remove(section);
            }
        }
        unknown
    }
}

/// The paths of the keys that a table gives, of at most two parts.
fn paths(table: &Table) -> Vec<String> {
    let of = |(name, value): (&String, &Value)| match value {
        Value::Table(inner) if !inner.contains_key("kind") => {
            inner.keys().map(|inner| format!("{name}.{inner}")).collect()
        }
        _ => vec![name.clone()],
    };
    table.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_built_in_profiles_are_the_files_of_the_repository() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/profiles");
        for (name, text) in BUILT_IN {
            let file = fs::read_to_string(folder.join(format!("{name}.toml"))).expect("a file");
            assert_eq!(text, file, "{name}");
        }
        assert_eq!(fs::read_dir(folder).expect("a folder").count(), BUILT_IN.len());
    }
}
