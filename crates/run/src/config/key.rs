//! A key of a configuration: its name, default, meaning and check, declared in one place.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

/// A key of a configuration that reads as a `T`.
///
/// Plans, error messages and the table of [`key_table`](crate::key_table) all use this one
/// declaration. [`Settings`](crate::Settings) reads its value.
///
/// # Example
/// ```
/// use updraft_run::Key;
///
/// const EPOCHS: Key<u64> = Key::new("train.epochs", "passes over the training data")
///     .default("10")
///     .check("at least 1", |epochs| *epochs >= 1);
/// ```
pub struct Key<T: 'static> {
    name: &'static str,
    meaning: &'static str,
    default: KeyDefault,
    expected: &'static str,
    allows: fn(&T) -> bool,
    inner: &'static [InnerKey],
    edit: Edit,
    is_performance: bool,
    decided_by: &'static [&'static str],
}

/// A key inside the table that a [`Key`] is: its name, its default in Markdown, and its meaning.
pub type InnerKey = (&'static str, &'static str, &'static str);

/// The effect of editing a key in the stored plan of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// The run is not resumed and its model is not used, because the key decides what the model
    /// computes.
    Refused,
    /// The run continues, and reports the edit.
    Reported,
    /// The run continues without a message, because the key does not change results.
    Free,
}

/// The default of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    /// Nothing.
    None,
    /// This value, in TOML.
    Value(&'static str),
    /// It depends on other keys, as described in Markdown.
    Depends(&'static str),
}

impl<T> Key<T> {
    /// A key without a default that takes every `T`.
    #[must_use]
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        let (default, expected) = (KeyDefault::None, "");
        Self {
            name,
            meaning,
            default,
            expected,
            allows: |_| true,
            inner: &[],
            edit: Edit::Refused,
            is_performance: false,
            decided_by: &[],
        }
    }

    /// Sets the default, in TOML.
    #[must_use]
    pub const fn default(mut self, toml: &'static str) -> Self {
        self.default = KeyDefault::Value(toml);
        self
    }

    /// Describes, in Markdown, how the default depends on other keys.
    #[must_use]
    pub const fn depends(mut self, markdown: &'static str) -> Self {
        self.default = KeyDefault::Depends(markdown);
        self
    }

    /// Sets which values are allowed. `expected` completes the sentence "it must be …": only a
    /// range, such as "at least 1", or a text that also names the type, such as "a finite number
    /// above 0".
    #[must_use]
    pub const fn check(mut self, expected: &'static str, allows: fn(&T) -> bool) -> Self {
        self.expected = expected;
        self.allows = allows;
        self
    }

    /// Describes the keys inside the table that the key is.
    #[must_use]
    pub const fn with(mut self, inner: &'static [InnerKey]) -> Self {
        self.inner = inner;
        self
    }

    /// Sets the effect of editing this key in the stored plan of a run; the default is
    /// [`Edit::Refused`].
    #[must_use]
    pub const fn edit(mut self, edit: Edit) -> Self {
        self.edit = edit;
        self
    }

    /// Marks a key that changes speed and memory, and results by no more than rounding: a
    /// [`Profile`](crate::Profile) may give it.
    #[must_use]
    pub const fn performance(mut self) -> Self {
        self.is_performance = true;
        self
    }

    /// Names the keys whose values decide whether this key is read, each of which is read only
    /// with some values of those before it. Without this, the `source` or the `kind` of the key's
    /// section decides, or the task.
    ///
    /// An error about a key that is given and not read names the last of them that is read.
    #[must_use]
    pub const fn decided_by(mut self, keys: &'static [&'static str]) -> Self {
        self.decided_by = keys;
        self
    }

    pub(super) fn allows(&self, value: &T) -> bool {
        (self.allows)(value)
    }
}

/// A [`Key`] of any type, for lists of keys.
pub trait AnyKey: Sync {
    /// Its path, such as `train.epochs`.
    fn name(&self) -> &'static str;

    /// Its meaning, in Markdown.
    fn meaning(&self) -> &'static str;

    /// Its default.
    fn standard(&self) -> KeyDefault;

    /// The expected value, after "it must be"; empty if every value of its type is allowed.
    fn expected(&self) -> &'static str;

    /// The described keys inside its table.
    fn inner(&self) -> &'static [InnerKey];

    /// The effect of editing this key in the stored plan of a run.
    fn edit(&self) -> Edit;

    /// Whether a profile may give it, as [`Key::performance`].
    fn is_performance(&self) -> bool;

    /// The keys whose values decide whether it is read, as [`Key::decided_by`].
    fn decided_by(&self) -> &'static [&'static str];

    /// serde's error about a value of another type.
    fn fault(&self, value: &Value) -> Option<String>;

    /// Whether a value has the key's type and is allowed.
    fn accepts(&self, value: &Value) -> bool;
}

impl<T: DeserializeOwned + Serialize> AnyKey for Key<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn standard(&self) -> KeyDefault {
        self.default
    }

    fn expected(&self) -> &'static str {
        self.expected
    }

    fn inner(&self) -> &'static [InnerKey] {
        self.inner
    }

    fn edit(&self) -> Edit {
        self.edit
    }

    fn is_performance(&self) -> bool {
        self.is_performance
    }

    fn decided_by(&self) -> &'static [&'static str] {
        self.decided_by
    }

    fn fault(&self, value: &Value) -> Option<String> {
        value.clone().try_into::<T>().err().map(|error| error.message().to_owned())
    }

    fn accepts(&self, value: &Value) -> bool {
        value.clone().try_into::<T>().is_ok_and(|value| self.allows(&value))
    }
}

/// The default of a key in TOML: the task's or the key's; `None` if it has none or depends on other
/// keys.
pub(super) fn default_text(
    key: &dyn AnyKey,
    own: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let own = own.iter().find(|(name, _)| *name == key.name());
    match (own, key.standard()) {
        (Some((_, text)), _) => Some(text),
        (None, KeyDefault::Value(text)) => Some(text),
        (None, KeyDefault::None | KeyDefault::Depends(_)) => None,
    }
}

/// The keys that a task or a part of a plan has.
pub type Keys = &'static [&'static dyn AnyKey];
