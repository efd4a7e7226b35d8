//! Errors of building or changing a network.

use updraft_kan::KanConfigError;

use crate::table::Head;

/// Why a [`SeparableConfig`](crate::SeparableConfig) is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SeparableConfigError {
    /// There are fewer than two classes.
    #[error("`classes` is {classes}; a classifier needs at least 2")]
    Classes {
        /// The number of classes given.
        classes: usize,
    },
    /// The width of the stem is out of range.
    #[error("`channels` is {channels}; expected 1 to {max}")]
    Channels {
        /// The width given.
        channels: usize,
        /// The largest width accepted.
        max: usize,
    },
    /// The stride of the stem is neither 1 nor 2.
    #[error("`stem_stride` is {stem_stride}; expected 1 (full size) or 2 (half size)")]
    StemStride {
        /// The stride given.
        stem_stride: usize,
    },
    /// The probability is out of range or not a number.
    #[error("`dropout` is {dropout}; expected at least 0 and less than 1")]
    Dropout {
        /// The probability given.
        dropout: f64,
    },
    /// The fraction of removed channels is out of range or not a number.
    #[error("`prune_ratio` is {prune_ratio}; expected at least 0 and less than 1")]
    PruneRatio {
        /// The fraction given.
        prune_ratio: f64,
    },
}

/// Why a [`WhitenedConfig`](crate::WhitenedConfig) is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WhitenedConfigError {
    /// There are fewer than two classes.
    #[error("`classes` is {classes}; a classifier needs at least 2")]
    Classes {
        /// The number of classes given.
        classes: usize,
    },
    /// The width of a stage is out of range.
    #[error("`widths[{stage}]` is {width}; expected 1 to {max}")]
    Width {
        /// The stage, from 0.
        stage: usize,
        /// The width given.
        width: usize,
        /// The largest width accepted.
        max: usize,
    },
    /// The momentum of the normalizations is out of range or not a number.
    #[error("`norm_momentum` is {norm_momentum}; expected above 0 and at most 1")]
    NormMomentum {
        /// The momentum given.
        norm_momentum: f64,
    },
    /// The factor of the logits is not positive and finite.
    #[error("`head_scale` is {head_scale}; expected a finite number above 0")]
    HeadScale {
        /// The factor given.
        head_scale: f64,
    },
    /// The addition to the eigenvalues is not positive and finite.
    #[error("`whitening_epsilon` is {whitening_epsilon}; expected a finite number above 0")]
    WhiteningEpsilon {
        /// The number given.
        whitening_epsilon: f64,
    },
}

/// Why outlier channels cannot be made: the factor is not positive and finite, or its reciprocal is
/// not a normal number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the factor of outlier channels is {factor}; expected a positive number such as 64")]
pub struct OutlierError {
    /// The factor given.
    pub factor: f32,
}

/// Why a [`PerceptronConfig`](crate::PerceptronConfig) is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerceptronConfigError {
    /// The number of inputs or of outputs is missing.
    #[error("`widths` needs at least 2 entries, inputs and outputs; got {count}")]
    TooFewWidths {
        /// The number of widths given.
        count: usize,
    },
    /// A layer has no features.
    #[error("`widths[{index}]` is 0; expected at least 1")]
    ZeroWidth {
        /// The position of the width, from 0.
        index: usize,
    },
}

/// Why a [`TableNetConfig`](crate::TableNetConfig) or an
/// [`InteractionConfig`](crate::InteractionConfig) or a
/// [`SplineNetConfig`](crate::SplineNetConfig) is invalid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TableNetConfigError {
    /// A row has no features.
    #[error("`features` has neither classes nor numbers: no features to predict from")]
    NoFeatures,
    /// A column of categories has no classes.
    #[error("column {column} of categories has no class; expected at least 1")]
    NoClasses {
        /// The column, counted from 0.
        column: usize,
    },
    /// There is no head.
    #[error("`heads` is empty: no heads to predict with")]
    NoHeads,
    /// A head has too few outputs.
    #[error("`heads[{index}]` is {head:?}; expected at least 2 classes, or 1 number or label")]
    Head {
        /// Its position, from 0.
        index: usize,
        /// The head given.
        head: Head,
    },
    /// A residual trunk has no blocks.
    #[error("`hidden` is empty: a residual trunk with no blocks; expected a width for each")]
    NoBlocks,
    /// The blocks of a residual trunk have different widths.
    #[error(
        "`hidden` has the widths {first} and {other}; expected the same for all residual blocks"
    )]
    BlockWidths {
        /// The first block's width.
        first: usize,
        /// Another block's.
        other: usize,
    },
    /// A size is 0.
    #[error("`{name}` is 0; expected at least 1")]
    Zero {
        /// The size's name.
        name: &'static str,
    },
    /// The standard deviation of the frequencies is out of range.
    #[error("`frequency_scale` is {scale}; expected a finite number above 0")]
    FrequencyScale {
        /// The deviation given.
        scale: f64,
    },
    /// The probability is out of range or not a number.
    #[error("`dropout` is {dropout}; expected at least 0 and less than 1")]
    Dropout {
        /// The probability given.
        dropout: f64,
    },
    /// The KAN layers cannot be built.
    #[error("splines: {cause}")]
    Splines {
        /// What is wrong with them.
        cause: KanConfigError,
    },
}

impl TableNetConfigError {
    pub(crate) fn check_dropout(dropout: f64) -> Result<(), Self> {
        if (0.0..1.0).contains(&dropout) { Ok(()) } else { Err(Self::Dropout { dropout }) }
    }
}

/// Why a [`UNetConfig`](crate::UNetConfig) is invalid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UNetConfigError {
    /// The number of input or output channels is out of range.
    #[error("`{name}` is {channels}; expected 1 to {max}")]
    Channels {
        /// The setting.
        name: &'static str,
        /// The number given.
        channels: usize,
        /// The largest number accepted.
        max: usize,
    },
    /// There are too few or too many levels.
    #[error("`filters` has {}; expected 2 to {max}", counted(*.levels))]
    Levels {
        /// The number of levels given.
        levels: usize,
        /// The largest number accepted.
        max: usize,
    },
    /// The number of filters of a level is out of range.
    #[error("`filters[{level}]` is {filters}; expected 1 to {max}")]
    Filters {
        /// The level, from 0.
        level: usize,
        /// The number given.
        filters: usize,
        /// The largest number accepted.
        max: usize,
    },
    /// The filters of a level are not a multiple of the groups.
    #[error(
        "`filters[{level}]` is {filters}; expected a multiple of the {groups} groups that are normalized"
    )]
    Groups {
        /// The level, from 0.
        level: usize,
        /// Its filters.
        filters: usize,
        /// The groups given.
        groups: usize,
    },
    /// The slope is out of range or not a number.
    #[error("`negative_slope` is {slope}; expected at least 0 and less than 1")]
    NegativeSlope {
        /// The slope given.
        slope: f64,
    },
    /// There are fewer levels in the decoder than outputs were requested.
    #[error(
        "`deep_supervision` is {outputs}; expected at most {}, the levels between the finest and \
         the coarsest of {levels}",
        levels - 2
    )]
    DeepSupervision {
        /// The number given.
        outputs: usize,
        /// The number of levels.
        levels: usize,
    },
}

/// A number of levels in words.
fn counted(levels: usize) -> String {
    match levels {
        1 => "1 level".to_owned(),
        levels => format!("{levels} levels"),
    }
}
