//! The fuzz targets: one for each reader, which must return for any bytes.

mod archives;
#[cfg(feature = "burn")]
mod checkpoints;
#[cfg(feature = "burn")]
mod configs;
mod onnx;
mod pictures;
mod quantized;
#[cfg(feature = "burn")]
mod records;
#[cfg(feature = "burn")]
mod schemas;
#[cfg(feature = "burn")]
mod splines;
mod streams;
mod tables;
#[cfg(feature = "burn")]
mod tensors;
mod volumes;

/// A reader under test.
pub(crate) struct Target {
    /// What it is chosen by.
    pub(crate) name: &'static str,
    /// Flags of libFuzzer beside those of every target.
    pub(crate) flags: &'static str,
    /// Reads the bytes; a panic is a fault.
    pub(crate) run: fn(&[u8]),
    /// First inputs.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

/// Readers that allocate no more than a small multiple of their input.
const SMALL: &str = "-malloc_limit_mb=64";

/// Readers that start threads: one that has done its work and not yet ended can be taken for a leak.
const THREADS: &str = "-malloc_limit_mb=64 -detect_leaks=0";

/// Readers that decode images, within the limit of 1 GiB that their documentation states.
const IMAGES: &str = "-malloc_limit_mb=1100 -max_len=4096";

/// Readers of burn's records, whose tensors start its threads and stay in its memory.
#[cfg(feature = "burn")]
const BURN: &str = "-malloc_limit_mb=256 -detect_leaks=0";

/// Commands of the program: what they print is not shown.
#[cfg(feature = "burn")]
const COMMANDS: &str = "-malloc_limit_mb=600 -detect_leaks=0 -close_fd_mask=3";

const fn target(
    name: &'static str,
    flags: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, flags, run, seeds }
}

pub(crate) const TARGETS: &[Target] = &[
    target("idx", SMALL, archives::idx, archives::idx_seeds),
    target("cifar", SMALL, archives::cifar, archives::cifar_seeds),
    target("cifar-archive", SMALL, archives::cifar_archive, archives::cifar_archive_seeds),
    target("tar-index", IMAGES, archives::tar_index, archives::tar_index_seeds),
    target("image", IMAGES, pictures::image, pictures::image_seeds),
    target("image-cache", THREADS, pictures::image_cache, pictures::image_cache_seeds),
    target("sample-cache", THREADS, pictures::sample_cache, pictures::sample_cache_seeds),
    target("png-volume", IMAGES, pictures::png_volume, pictures::image_seeds),
    target("table", SMALL, tables::table, tables::table_seeds),
    target("table-columns", SMALL, tables::columns, tables::table_seeds),
    target("image-manifest", SMALL, tables::image_manifest, tables::image_manifest_seeds),
    target("volume", SMALL, volumes::volume, volumes::volume_seeds),
    target("volume-manifest", SMALL, volumes::manifest, volumes::manifest_seeds),
    target("loader-state", THREADS, streams::loader_state, streams::loader_state_seeds),
    #[cfg(feature = "burn")]
    target("checkpoint-manifest", BURN, checkpoints::manifest, checkpoints::manifest_seeds),
    #[cfg(feature = "burn")]
    target("checkpoint-state", BURN, checkpoints::state, checkpoints::state_seeds),
    #[cfg(feature = "burn")]
    target("checkpoint-model", BURN, checkpoints::model, checkpoints::model_seeds),
    #[cfg(feature = "burn")]
    target("checkpoint-average", BURN, checkpoints::average, checkpoints::model_seeds),
    #[cfg(feature = "burn")]
    target("optimizer", BURN, checkpoints::optimizer, checkpoints::optimizer_seeds),
    #[cfg(feature = "burn")]
    target("config", SMALL, configs::config, configs::config_seeds),
    #[cfg(feature = "burn")]
    target("setting", SMALL, configs::setting, configs::setting_seeds),
    #[cfg(feature = "burn")]
    target("stored-plan", SMALL, configs::stored_plan, configs::config_seeds),
    #[cfg(feature = "burn")]
    target("metrics", COMMANDS, records::metrics, records::metrics_seeds),
    #[cfg(feature = "burn")]
    target("quant-json", COMMANDS, records::quant, records::quant_seeds),
    #[cfg(feature = "burn")]
    target("run-json", COMMANDS, records::run, records::run_seeds),
    #[cfg(feature = "burn")]
    target("pictures-json", COMMANDS, records::pictures, records::pictures_seeds),
    #[cfg(feature = "burn")]
    target("summary-json", COMMANDS, records::summary, records::summary_seeds),
    #[cfg(feature = "burn")]
    target("encoder-json", COMMANDS, records::encoder, records::encoder_seeds),
    #[cfg(feature = "burn")]
    target("targets-json", COMMANDS, records::targets, records::targets_seeds),
    #[cfg(feature = "burn")]
    target("schema", BURN, schemas::schema, schemas::schema_seeds),
    #[cfg(feature = "burn")]
    target("classes-json", COMMANDS, records::classes, records::classes_seeds),
    #[cfg(feature = "burn")]
    target("images-json", COMMANDS, records::images, records::images_seeds),
    target("quantized-model", SMALL, quantized::model, quantized::seeds),
    target("onnx", SMALL, onnx::model, onnx::seeds),
    #[cfg(feature = "burn")]
    target("splines", BURN, splines::splines, splines::splines_seeds),
];
