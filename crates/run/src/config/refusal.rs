//! Errors about the values of a configuration: which key, where it was given, and what it must be.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;
use updraft_data::DataError;
use updraft_trainer::TrainError;

use super::error::ConfigError;
use super::expected::{A_KIND, is_range};
use super::fault::Fault;
use super::key::{AnyKey, Key};
use super::key_path::find;
use super::layers::{at_line, is_misspelled, unknown_key};
use super::set::Set;
use super::settings::Settings;
use super::shortened::shortened;
use super::train::key_of_setting;

impl Settings {
    /// An error about the value of a key, with the file and line where it was given, if any.
    ///
    /// The text is "`key` is `value`; it must be `expected`".
    pub fn refuse(
        &self,
        key: &str,
        value: impl Display,
        expected: impl Into<String>,
    ) -> ConfigError {
        let (place, value) = (self.place(key), value.to_string());
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

    /// File and line of a key with a colon; for the command line, the option if it is not `--set`;
    /// empty for a key that is not given.
    ///
    /// A key that no file gives is looked up in its table.
    pub(super) fn place(&self, key: &str) -> String {
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
    pub(super) fn set_of(&self, key: &str) -> Option<&str> {
        let is_in = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let gives = |set: &&Set| {
            let path = set.key();
            is_in(&path, key) || is_in(key, &path)
        };
        self.sets.iter().rev().find(gives).map(|set| set.text.as_str())
    }

    pub(super) fn unread(&self, key: &str, beside: String) -> ConfigError {
        ConfigError::Unread { place: self.place(key), key: key.to_owned(), beside }
    }

    /// The key that decides whether `name` is read, with its value; see [`Key::decided_by`].
    pub(super) fn beside(&self, name: &str) -> String {
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

    /// An error about a value of another type than its key's, as serde reported it.
    pub(super) fn refuse_type<T: DeserializeOwned + Serialize>(
        &self,
        key: &Key<T>,
        value: &Value,
        error: &toml::de::Error,
    ) -> ConfigError {
        let name = key.name();
        let whole = |path: &[String]| {
            path.iter().fold(name.to_owned(), |whole, inner| format!("{whole}.{inner}"))
        };
        let fault = Fault::find::<T>(value, error);
        if let Some((table, unknown)) = fault.unknown() {
            let known = fault.message.split("expected ").nth(1).unwrap_or_default();
            let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            return self.refuse_unknown_inner(&whole(table), unknown, fault.kind(table), known);
        }
        if !fault.path.is_empty() {
            return self.refuse(&whole(&fault.path), fault.shown::<T>(), fault.expected::<T>());
        }
        let expected = match (key.expected(), fault.expected::<T>()) {
            (_, table) if table.starts_with(A_KIND) => table,
            ("", of_type) => of_type,
            // A range alone does not state the type.
            (range, of_type) if is_range(range) && of_type.starts_with("a whole number") => {
                format!("a whole number, {range}")
            }
            (range, of_type) if is_range(range) => format!("{of_type}, {range}"),
            (list, of_type) if of_type == "a list" && value.is_str() => {
                format!("{list}, such as [{}]", shortened(&value.to_string()))
            }
            (whole, _) => whole.to_owned(),
        };
        self.refuse(name, fault.shown::<T>(), expected)
    }

    /// An error about a key that a table inside a value cannot have.
    ///
    /// Other kinds of the table may have it, unless its name is similar to a known one.
    fn refuse_unknown_inner(
        &self,
        table: &str,
        unknown: &str,
        kind: Option<&Value>,
        mut known: Vec<&str>,
    ) -> ConfigError {
        let inner = format!("{table}.{unknown}");
        match kind.filter(|_| !known.contains(&"kind") && !is_misspelled(unknown, &known)) {
            Some(kind) => self.unread(&inner, format!("`{table}.kind = {kind}`")),
            None => {
                let place = match self.set_of(&inner) {
                    Some(set) => format!("--set {set}"),
                    None => self.place(&inner).trim_end_matches(": ").to_owned(),
                };
                unknown_key(place, &inner, &mut known)
            }
        }
    }

    /// Returns an error for a key in a given value's tables that the value does not have after it was
    /// read: serde ignores keys beside a `kind` that has none.
    pub(super) fn refuse_ignored(
        &self,
        name: &str,
        given: &Value,
        read: &Value,
    ) -> Result<(), ConfigError> {
        let (Value::Table(given), Value::Table(read)) = (given, read) else { return Ok(()) };
        given.iter().try_for_each(|(key, value)| match read.get(key) {
            Some(read) => self.refuse_ignored(&format!("{name}.{key}"), value, read),
            None => {
                let known = read.keys().map(String::as_str).filter(|known| *known != "kind");
                Err(self.refuse_unknown_inner(name, key, given.get("kind"), known.collect()))
            }
        })
    }
}
