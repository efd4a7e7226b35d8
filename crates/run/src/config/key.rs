//! A key of a configuration: its name, default, meaning and check, declared once.

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
}

/// A key inside the table that a [`Key`] is: its name, its default in Markdown, and its meaning.
pub type InnerKey = (&'static str, &'static str, &'static str);

/// What becomes of a run whose stored plan was edited at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// The run is not resumed, and its model not used: the key decides what the model computes.
    Refused,
    /// The run goes on, and says what was edited.
    Reported,
    /// The run goes on: the key changes no result.
    Free,
}

/// What a key is where no configuration gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    /// Nothing.
    None,
    /// This value, in TOML.
    Value(&'static str),
    /// It depends on other keys; how, in Markdown.
    Depends(&'static str),
}

impl<T> Key<T> {
    /// A key without a default that takes every `T`.
    #[must_use]
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        let (default, expected) = (KeyDefault::None, "");
        Self { name, meaning, default, expected, allows: |_| true, inner: &[], edit: Edit::Refused }
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

    /// Sets which values are allowed. `expected` completes the sentence "it must be …": a range
    /// alone, such as "at least 1", or a text that also names the type, such as "a finite number
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

    /// Sets what becomes of a run whose stored plan was edited at this key; [`Edit::Refused`]
    /// without this call.
    #[must_use]
    pub const fn edit(mut self, edit: Edit) -> Self {
        self.edit = edit;
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

    /// What it means, in Markdown.
    fn meaning(&self) -> &'static str;

    /// What it is where no configuration gives it.
    fn standard(&self) -> KeyDefault;

    /// What it must be, after "it must be"; empty where every value of its type is allowed.
    fn expected(&self) -> &'static str;

    /// The keys inside the table that it is, where they are described.
    fn inner(&self) -> &'static [InnerKey];

    /// What becomes of a run whose stored plan was edited at this key.
    fn edit(&self) -> Edit;

    /// What is wrong with a value of another type, as serde reports it.
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

    fn fault(&self, value: &Value) -> Option<String> {
        value.clone().try_into::<T>().err().map(|error| error.message().to_owned())
    }

    fn accepts(&self, value: &Value) -> bool {
        value.clone().try_into::<T>().is_ok_and(|value| self.allows(&value))
    }
}

/// The default of a key in TOML: a task's own, else the key's; `None` where it has none or it
/// depends on other keys.
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
