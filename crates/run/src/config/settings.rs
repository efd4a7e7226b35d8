//! The values of a configuration, read key by key.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};
use updraft_data::DataError;
use updraft_trainer::TrainError;

use super::error::ConfigError;
use super::expected::{A_KIND, culprit, expected_by_serde, is_range, quoted_after, with_kinds};
use super::key::{AnyKey, Key, Keys, default_text};
use super::key_path::{find, put};
use super::layers::{Layer, at_line, lay_set, layers, merged, refuse_unknown, unknown_key};
use super::train::key_of_setting;
use super::tune;

/// The largest number of characters of a value in an error.
const MOST_SHOWN: usize = 120;

/// A task's default that replaces that of a common key: the key's name, and the value in TOML.
pub type TaskDefault = (&'static str, &'static str);

/// The values of a configuration, read key by key.
///
/// Every key that is read is recorded with its value: the record is the text of the plan, and a key
/// that was given and not read is an error.
pub struct Settings {
    layers: Vec<Layer>,
    sets: Vec<String>,
    given: Table,
    keys: Vec<Keys>,
    defaults: &'static [TaskDefault],
    read: RefCell<BTreeSet<&'static str>>,
    /// Keys that were read and must be given: they decide nothing.
    required: RefCell<BTreeSet<&'static str>>,
    resolved: RefCell<Table>,
}

impl Settings {
    /// The values of a text, of the files it inherits from, and of `--set key=value`, before the
    /// known keys are set.
    ///
    /// `place` is the path of the text: errors name it, and paths in `inherit` are relative to its
    /// folder.
    ///
    /// # Errors
    /// [`ConfigError::Read`], [`ConfigError::Malformed`], [`ConfigError::Inherit`] or
    /// [`ConfigError::Set`].
    pub fn load(text: &str, place: &Path, sets: &[String]) -> Result<Self, ConfigError> {
        let layers = layers(text, place)?;
        let mut given = merged(&layers);
        for set in sets {
            lay_set(&mut given, set)?;
        }
        Ok(Self {
            layers,
            sets: sets.to_vec(),
            given,
            keys: Vec::new(),
            defaults: &[],
            read: RefCell::default(),
            required: RefCell::default(),
            resolved: RefCell::default(),
        })
    }

    /// The text that a top-level key gives, read before the known keys are set.
    #[must_use]
    pub fn peek(&self, key: &str) -> Option<String> {
        match self.given.get(key)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Sets the known keys, and the defaults of the task.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`] for any other that is given, with its file and line, and
    /// [`ConfigError::Value`] for a section that is not a table.
    pub fn with_keys(
        mut self,
        keys: Vec<Keys>,
        defaults: &'static [TaskDefault],
    ) -> Result<Self, ConfigError> {
        for layer in &self.layers {
            let at = |path: &str| at_line(&layer.place, &layer.text, path);
            refuse_unknown(&layer.table, &keys, &at)?;
        }
        let at = |path: &str| match self.set_of(path) {
            Some(set) => format!("--set {set}"),
            None => "--set".to_owned(),
        };
        refuse_unknown(&self.given, &keys, &at)?;
        self.keys = keys;
        self.defaults = defaults;
        Ok(self)
    }

    /// The files, the main one first.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// All files merged with the command line.
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
        let standard = || {
            let text = default_text(key, self.defaults);
            let text = text.unwrap_or_else(|| panic!("`{}` has no default", key.name()));
            let table: Table = format!("v = {text}").parse().expect("a default is TOML");
            table["v"].clone().try_into().expect("a default is of the key's type")
        };
        self.value_or(key, standard)
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
            Err(error) => return Err(self.refuse_type(key, value, error.message())),
        };
        self.refuse_inner(key.name(), value, &parsed)?;
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

    /// An error about the value of a key, with the file and line where it was given, if any.
    ///
    /// The text is "`key` is `value`; it must be `expected`".
    pub fn refuse(
        &self,
        key: &str,
        value: impl Display,
        expected: impl Into<String>,
    ) -> ConfigError {
        let (place, mut value) = (self.place(key), value.to_string());
        if let Some((end, _)) = value.char_indices().nth(MOST_SHOWN) {
            value.truncate(end);
            value.push('…');
        }
        ConfigError::Value { place, key: key.to_owned(), value, expected: expected.into() }
    }

    /// The same for an error of the trainer: its settings are keys of `train`.
    pub fn refuse_training(&self, error: &TrainError) -> ConfigError {
        match error {
            TrainError::Setting { name, value, expected } => {
                self.refuse(&key_of_setting(name), value, expected.clone())
            }
            other => self.refuse_given("precision", &format!("one that can train: {other}")),
        }
    }

    /// The same for an error of the data crate about the value of a key: a number, or a table with
    /// numbers.
    pub fn refuse_data(&self, key: &str, error: &DataError) -> ConfigError {
        match error {
            DataError::Setting { name, value, expected } => {
                let number = name.rsplit('.').next().unwrap_or(name);
                match find(&self.resolved.borrow(), key) {
                    Some(Value::Table(_)) => {
                        self.refuse(&format!("{key}.{number}"), value, expected.clone())
                    }
                    _ => self.refuse(key, value, expected.clone()),
                }
            }
            other => self.refuse_given(key, &format!("one that can be applied: {other}")),
        }
    }

    /// An error about a key, with the given or the default value.
    pub(crate) fn refuse_given(&self, key: &str, expected: &str) -> ConfigError {
        let resolved = self.resolved.borrow();
        let value = find(&self.given, key).or_else(|| find(&resolved, key));
        let value = value.map_or_else(|| "not given".to_owned(), ToString::to_string);
        self.refuse(key, value, expected)
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
            if find(&self.given, name).is_some() && !read.contains(name) {
                return Err(self.unread(name, self.beside(name)));
            }
        }
        Ok(self.resolved.borrow().clone())
    }

    /// File and line of a key with a colon; for the command line, the option if it is not `--set`;
    /// empty for a key that is not given.
    ///
    /// A key that no file gives is looked up in its table.
    fn place(&self, key: &str) -> String {
        if self.set_of(key).is_some() {
            return String::new();
        }
        let mut path = key;
        loop {
            let giving = self.layers.iter().find(|layer| find(&layer.table, path).is_some());
            if let Some(layer) = giving {
                return format!("{}: ", at_line(&layer.place, &layer.text, path));
            }
            match path.rsplit_once('.') {
                // A section without the key has no line for it.
                Some((table, _)) if table.contains('.') => path = table,
                _ => return String::new(),
            }
        }
    }

    /// The last `--set` that gives a key or a part of it.
    fn set_of(&self, key: &str) -> Option<&str> {
        let is_in = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let gives = |set: &&String| {
            let path = set.split_once('=').map_or(set.as_str(), |(path, _)| path.trim());
            is_in(path, key) || is_in(key, path)
        };
        self.sets.iter().rev().find(gives).map(String::as_str)
    }

    fn unread(&self, key: &str, beside: String) -> ConfigError {
        ConfigError::Unread { place: self.place(key), key: key.to_owned(), beside }
    }

    /// The key that decides whether `name` is read, with its value; see [`Key::decided_by`].
    fn beside(&self, name: &str) -> String {
        let mut keys = self.keys.iter().flat_map(|keys| keys.iter());
        let declared = keys.find(|key| key.name() == name).map_or(&[][..], |key| key.decided_by());
        let declared = declared.iter().rev().filter(|key| !self.required.borrow().contains(*key));
        let section = name.split_once('.').map_or("", |(section, _)| section);
        let usual = ["source", "kind"].map(|choice| format!("{section}.{choice}"));
        let mut deciding = declared.map(|&key| key.to_owned()).chain(usual);
        deciding.find_map(|key| self.shown(&key)).or_else(|| self.shown("task")).unwrap_or_default()
    }

    /// A key that was read with its value, such as `data.source = "folders"`, in backquotes.
    pub(super) fn shown(&self, key: &str) -> Option<String> {
        find(&self.resolved.borrow(), key).map(|value| format!("`{key} = {value}`"))
    }

    /// An error about a value of another type than its key's; `message` is what serde reported.
    fn refuse_type<T: DeserializeOwned + Serialize>(
        &self,
        key: &Key<T>,
        value: &Value,
        message: &str,
    ) -> ConfigError {
        let name = key.name();
        let kind = value.get("kind");
        if let Some(unknown) = quoted_after(message, "unknown field ") {
            let inner = format!("{name}.{unknown}");
            if let Some(kind) = kind {
                return self.unread(&inner, format!("`{name}.kind = {kind}`"));
            }
            let known = message.split("expected ").nth(1).unwrap_or_default();
            let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            let place = match self.set_of(&inner) {
                Some(set) => format!("--set {set}"),
                None => self.place(&inner).trim_end_matches(": ").to_owned(),
            };
            return unknown_key(place, &inner, &mut known);
        }
        if let (Some(kind), true) = (kind, message.starts_with("unknown variant ")) {
            return self.refuse(&format!("{name}.kind"), kind, expected_by_serde(message));
        }
        if let Some((inner, value)) = culprit::<T>(value, message) {
            let key = format!("{name}.{inner}");
            return self.refuse(&key, value, expected_by_serde(message));
        }
        let expected = match (key.expected(), expected_by_serde(message)) {
            (_, table) if table.starts_with(A_KIND) => with_kinds::<T>(table),
            ("", of_type) => of_type,
            // A range alone does not state the type.
            (range, of_type) if is_range(range) && of_type.starts_with("a whole number") => {
                format!("a whole number, {range}")
            }
            (range, of_type) if is_range(range) => format!("{of_type}, {range}"),
            (list, of_type) if of_type == "a list" && value.is_str() => {
                format!("{list}, such as [{value}]")
            }
            (whole, _) => whole.to_owned(),
        };
        self.refuse(name, value, expected)
    }

    /// Returns an error for a key in a value's table that its kind does not have: serde ignores it.
    fn refuse_inner<T: Serialize>(
        &self,
        name: &str,
        given: &Value,
        parsed: &T,
    ) -> Result<(), ConfigError> {
        let (Value::Table(given), Ok(Value::Table(parsed))) = (given, Value::try_from(parsed))
        else {
            return Ok(());
        };
        match given.keys().find(|key| !parsed.contains_key(*key)) {
            None => Ok(()),
            Some(key) => {
                let kind = given.get("kind").map_or_else(String::new, ToString::to_string);
                Err(self.unread(&format!("{name}.{key}"), format!("`{name}.kind = {kind}`")))
            }
        }
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
