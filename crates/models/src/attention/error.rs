//! Errors of an attention module's configuration.

/// Why the configuration of an attention module is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttentionConfigError {
    /// A number is 0.
    #[error("`{name}` is 0; expected at least 1")]
    Zero {
        /// The name of the number.
        name: &'static str,
    },
}

impl AttentionConfigError {
    /// Refuses the first number that is 0.
    pub(super) fn check(numbers: &[(&'static str, usize)]) -> Result<(), Self> {
        match numbers.iter().find(|(_, number)| *number == 0) {
            Some(&(name, _)) => Err(Self::Zero { name }),
            None => Ok(()),
        }
    }
}
