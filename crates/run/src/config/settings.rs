//! The values of a configuration, read key by key.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::error::ConfigError;
use super::key::{AnyKey, Key, Keys, default_text};
use super::key_path::{find, put};
use super::layers::{Layer, at_line, layers, merged, refuse_unknown};
use super::profile::{Profile, UnusedKey};
use super::set::Set;
use super::tune;
use crate::bounded;

/// A task's default that replaces that of a common key: the key's name, and the value in TOML.
pub type TaskDefault = (&'static str, &'static str);

/// The values of a configuration, read key by key.
///
/// Every key that is read is recorded with its value: the record is the text of the plan, and a key
/// that was given and not read is an error.
pub struct Settings {
    /// The profile, if there is one, then the files.
    pub(super) layers: Vec<Layer>,
    has_profile: bool,
    pub(super) sets: Vec<Set>,
    pub(super) given: Table,
    pub(super) keys: Vec<Keys>,
    defaults: &'static [TaskDefault],
    read: RefCell<BTreeSet<&'static str>>,
    /// Keys that were read and must be given: they decide nothing.
    pub(super) required: RefCell<BTreeSet<&'static str>>,
    pub(super) resolved: RefCell<Table>,
    unused: RefCell<Vec<UnusedKey>>,
}

impl Settings {
    /// The values of a text, of the files it inherits from, and of `--set key=value`, before the
    /// known keys are set. `key=` without a value removes a key that the text or the files give.
    ///
    /// `place` is the path of the text: errors name it, and paths in `inherit` are relative to its
    /// folder.
    ///
    /// # Errors
    /// [`ConfigError::Read`], [`ConfigError::Malformed`], [`ConfigError::Inherit`],
    /// [`ConfigError::InheritMany`] or [`ConfigError::Set`].
    pub fn load(text: &str, place: &Path, sets: &[String]) -> Result<Self, ConfigError> {
        let layers = layers(text, place)?;
        let sets = sets.iter().map(|set| Set::parse(set)).collect::<Result<Vec<_>, _>>()?;
        let given = merged_with(&layers, &sets)?;
        Ok(Self {
            layers,
            has_profile: false,
            sets,
            given,
            keys: Vec::new(),
            defaults: &[],
            read: RefCell::default(),
            required: RefCell::default(),
            resolved: RefCell::default(),
            unused: RefCell::default(),
        })
    }

    /// The same of the file at a path.
    ///
    /// # Errors
    /// As [`load`](Self::load), and [`ConfigError::Read`] if the file does not exist.
    pub fn open(path: &Path, sets: &[String]) -> Result<Self, ConfigError> {
        let failed = |cause| ConfigError::Read { path: path.to_owned(), cause };
        let text = bounded::read_config(path).map_err(failed)?;
        Self::load(&text, path, sets)
    }

    /// The same with a profile, which takes precedence over the files, and not over `--set`.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.layers.insert(0, profile.layer);
        self.has_profile = true;
        self
    }

    /// The profile's keys that the configuration does not read.
    #[must_use]
    pub fn unused_keys(&self) -> Vec<UnusedKey> {
        self.unused.borrow().clone()
    }

    /// The text that a top-level key gives, read before the known keys are set.
    #[must_use]
    pub fn peek(&self, key: &str) -> Option<String> {
        match self.given.get(key)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Returns an error for a profile with a key that none of `every` task has, or that changes
    /// what is learned.
    pub(super) fn check_profile(&self, every: &[Keys]) -> Result<(), ConfigError> {
        match self.layers.first() {
            Some(profile) if self.has_profile => Profile::check(profile, every),
            _ => Ok(()),
        }
    }

    /// Sets the known keys, and the defaults of the task.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`] for any other that is given, with its file and line,
    /// [`ConfigError::NothingToRemove`], and [`ConfigError::Value`] for a section that is not a
    /// table.
    pub fn with_keys(
        mut self,
        keys: Vec<Keys>,
        defaults: &'static [TaskDefault],
    ) -> Result<Self, ConfigError> {
        if self.has_profile {
            let unknown = Profile::take_unknown(&mut self.layers[0].table, &keys);
            let reason = "the task has no such key";
            self.unused.get_mut().extend(
                unknown.into_iter().map(|key| UnusedKey { key, reason: reason.to_owned() }),
            );
            self.given = merged_with(&self.layers, &self.sets)?;
        }
        for layer in &self.layers {
            let at = |path: &str| at_line(&layer.place, &layer.text, path);
            refuse_unknown(&layer.table, &keys, &at)?;
        }
        let at = |path: &str| match self.set_of(path) {
            Some(set) => format!("--set {set}"),
            None => "--set".to_owned(),
        };
        refuse_unknown(&self.given, &keys, &at)?;
        let mut given = merged(&self.layers);
        for set in &self.sets {
            if set.is_removal() && !set.is_in(&given) {
                refuse_unknown(&set.alone(), &keys, &at)?;
                let (given, key) = (set.text.clone(), set.key());
                return Err(ConfigError::NothingToRemove { option: "--set", given, key });
            }
            set.apply(&mut given)?;
        }
        self.keys = keys;
        self.defaults = defaults;
        Ok(self)
    }

    /// The profile, if there is one, then the files, the main one first.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Profile and files merged with the command line.
    #[must_use]
    pub fn given(&self) -> &Table {
        &self.given
    }

    /// The value of a key that has a default.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for a value of another type or out of its range.
    ///
    /// # Panics
    /// If the key has no default.
    pub fn value<T: DeserializeOwned + Serialize>(&self, key: &Key<T>) -> Result<T, ConfigError> {
        self.value_or(key, || self.default(key))
    }

    /// The default of a key for the task.
    ///
    /// # Panics
    /// If it has none.
    pub(crate) fn default<T: DeserializeOwned + Serialize>(&self, key: &Key<T>) -> T {
        let text = default_text(key, self.defaults);
        let text = text.unwrap_or_else(|| panic!("`{}` has no default", key.name()));
        let table: Table = format!("v = {text}").parse().expect("a default is TOML");
        table["v"].clone().try_into().expect("a default is of the key's type")
    }

    /// The value of a key, or a value derived from other keys.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn value_or<T: DeserializeOwned + Serialize>(
        &self,
        key: &Key<T>,
        standard: impl FnOnce() -> T,
    ) -> Result<T, ConfigError> {
        match self.option(key)? {
            Some(value) => Ok(value),
            None => {
                let value = standard();
                self.note(key.name(), None, &value);
                Ok(value)
            }
        }
    }

    /// The value of an optional key.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn option<T: DeserializeOwned + Serialize>(
        &self,
        key: &Key<T>,
    ) -> Result<Option<T>, ConfigError> {
        self.read.borrow_mut().insert(key.name());
        let Some(value) = find(&self.given, key.name()) else { return Ok(None) };
        let parsed = match value.clone().try_into::<T>() {
            Ok(parsed) if key.allows(&parsed) => parsed,
            Ok(_) => return Err(self.refuse(key.name(), value, key.expected())),
            Err(error) => return Err(self.refuse_type(key, value, &error)),
        };
        if let Ok(read) = Value::try_from(&parsed) {
            self.refuse_ignored(key.name(), value, &read)?;
        }
        self.note(key.name(), Some(value), &parsed);
        Ok(Some(parsed))
    }

    /// The value of a key that `because` requires.
    ///
    /// # Errors
    /// [`ConfigError::Missing`], and as [`value`](Self::value).
    pub fn required<T: DeserializeOwned + Serialize>(
        &self,
        key: &Key<T>,
        because: impl Display,
    ) -> Result<T, ConfigError> {
        self.required.borrow_mut().insert(key.name());
        let missing = || ConfigError::Missing { key: key.name(), because: because.to_string() };
        self.option(key)?.ok_or_else(missing)
    }

    /// The values that were read, including defaults: the text of the plan.
    ///
    /// # Errors
    /// [`ConfigError::Unread`] for a key that was given but not read.
    pub fn finish(&self) -> Result<Table, ConfigError> {
        let read = self.read.borrow();
        let names = self.keys.iter().flat_map(|keys| keys.iter().map(|key| key.name()));
        // A search is described beside the run that it begins with.
        let is_of_search =
            |name: &&str| name.split_once('.').is_some_and(|(section, _)| section == tune::SECTION);
        for name in names.filter(|name| !is_of_search(name)) {
            if find(&self.given, name).is_none() || read.contains(name) {
                continue;
            }
            let beside = self.beside(name);
            if !self.is_of_profile(name) {
                return Err(self.unread(name, beside));
            }
            let reason = format!("it is not read beside {beside}");
            self.unused.borrow_mut().push(UnusedKey { key: name.to_owned(), reason });
        }
        Ok(self.resolved.borrow().clone())
    }

    /// Whether a key is given by the profile and by nothing else.
    fn is_of_profile(&self, key: &str) -> bool {
        let (profile, files) = self.layers.split_at(usize::from(self.has_profile));
        let gives = |layers: &[Layer]| layers.iter().any(|it| find(&it.table, key).is_some());
        gives(profile) && !gives(files) && self.set_of(key).is_none()
    }

    fn note<T: Serialize>(&self, name: &'static str, given: Option<&Value>, value: &T) {
        self.read.borrow_mut().insert(name);
        // A table with its defaults; other values unchanged.
        let value = match (given, written(value)) {
            (_, Some(table @ Value::Table(_))) => table,
            (Some(given), _) => given.clone(),
            (None, Some(value)) => value,
            (None, None) => return,
        };
        put(&mut self.resolved.borrow_mut(), name, value);
    }
}

/// The layers merged with `--set`.
fn merged_with(layers: &[Layer], sets: &[Set]) -> Result<Table, ConfigError> {
    let mut given = merged(layers);
    sets.iter().try_for_each(|set| set.apply(&mut given))?;
    Ok(given)
}

/// A value in TOML; `None` for values that TOML cannot represent.
///
/// It is formatted and parsed again, so that an f32 keeps its short form: `Value::try_from` turns
/// 0.1 into 0.10000000149011612.
fn written<T: Serialize>(value: &T) -> Option<Value> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        v: &'a T,
    }
    let text = toml::to_string(&Line { v: value }).ok()?;
    text.parse::<Table>().ok()?.remove("v")
}
