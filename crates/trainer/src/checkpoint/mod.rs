//! Checkpoints: folders that are complete or absent.
//!
//! `step-00000042/` contains `model.bpk` and `optimizer.bpk`, with an average of the parameters
//! `average.bpk`, with recomputed batch norms `served.bpk` (all burnpack), `model.safetensors`
//! with the weights that are served, for other tools, `state.json` and, written last,
//! `manifest.json` with the SHA-256 of each. All are written to `.step-00000042.partial/`,
//! flushed to the disk, and the folder is renamed into place: a kill at any moment leaves the
//! previous checkpoint untouched. What is deleted is renamed first, so that a folder with a
//! checkpoint's name is complete.

mod contents;
mod error;
mod files;
mod kinds;
mod load;
mod optimizer;
mod part;
mod retention;
mod save;
mod state;

pub use contents::{contents, export_hash};
pub use error::CheckpointError;
pub(crate) use load::state;
pub use load::{Loaded, check, check_served, load, load_model};
pub(crate) use optimizer::counted_updates;
pub use part::load_part;
pub use retention::{Keep, best, list, prune, remove_remains, set_aside, step};
pub use save::{Snapshot, save};
pub use state::RunState;
