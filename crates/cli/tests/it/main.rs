//! The command line from the outside: one file a subject.

mod bad_input;
mod batch_size;
mod captured;
mod changed_files;
#[cfg(target_os = "linux")]
mod closed_output;
mod command;
mod compare;
mod compare_again;
#[cfg(unix)]
mod compare_stopped;
#[cfg(any(
    feature = "cuda",
    feature = "metal",
    feature = "rocm",
    feature = "vulkan",
    feature = "webgpu",
    feature = "wgpu"
))]
mod cube;
mod data;
mod determinism;
mod diverged;
mod dotted_paths;
mod dry_run;
mod encoder_settings;
#[cfg(unix)]
mod hard_links;
mod help;
mod hidden_characters;
mod hostile;
mod hostile_tasks;
mod inputs;
mod int8;
mod int8_binding;
mod int8_tables;
mod int8_volumes;
mod keys;
mod library;
mod lost;
mod lr_find;
#[cfg(target_os = "linux")]
mod memory;
mod next;
mod options;
mod other_images;
mod outputs;
mod pathways;
mod pipeline;
#[cfg(unix)]
mod pipes;
mod precision_notes;
mod predict_parts;
mod predict_table;
mod profiles;
mod quantize;
mod record;
mod refused;
mod replaced;
mod replaced_images;
mod resume;
#[cfg(unix)]
mod scale_estimate;
mod served;
mod signals;
#[cfg(unix)]
mod stopped;
mod tables;
mod tasks;
mod test_time;
mod train;
mod tune;
mod tune_again;
mod tune_grid;
mod tune_storage;
mod validate;
