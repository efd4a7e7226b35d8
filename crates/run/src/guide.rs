//! The pages of the guide, whose examples are tested with the documentation of this crate.
//!
//! This crate depends on every crate that they use.

#[doc = include_str!("../../../docs/guide/devices.md")]
struct Devices;

#[doc = include_str!("../../../docs/guide/convolutions.md")]
struct Convolutions;

#[doc = include_str!("../../../docs/guide/kan.md")]
struct Kan;

#[doc = include_str!("../../../docs/guide/int8.md")]
struct Int8;

#[doc = include_str!("../../../docs/guide/data-loading.md")]
struct DataLoading;

#[doc = include_str!("../../../docs/guide/batch-size.md")]
struct BatchSize;

#[doc = include_str!("../../../docs/guide/recomputation.md")]
struct Recomputation;

#[doc = include_str!("../../../docs/guide/mixed-precision.md")]
struct MixedPrecision;

#[doc = include_str!("../../../docs/guide/gpu.md")]
struct Gpu;

#[doc = include_str!("../../../docs/guide/options.md")]
struct Options;

#[doc = include_str!("../../../docs/guide/tuning.md")]
struct Tuning;

#[doc = include_str!("../../../docs/guide/microscopy.md")]
struct Microscopy;

#[doc = include_str!("../../../docs/guide/masked-images.md")]
struct MaskedImages;

#[doc = include_str!("../../../docs/guide/pathways.md")]
struct Pathways;

#[doc = include_str!("../../../docs/guide/tables.md")]
struct Tables;

#[doc = include_str!("../../../docs/guide/from-pytorch.md")]
struct FromPyTorch;

#[doc = include_str!("../../../docs/guide/from-lightning.md")]
struct FromLightning;

#[doc = include_str!("../../../docs/guide/from-keras.md")]
struct FromKeras;

#[doc = include_str!("../../../docs/guide/from-burn.md")]
struct FromBurn;
