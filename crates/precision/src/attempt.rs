//! A copy of a model on which an update is tried.

use burn::module::Module;

/// The same model with running statistics of its own.
///
/// A forward pass in training changes the running statistics of batch norms, and clones of a burn
/// module share them, so a step that may be skipped must not run on the original. Run the step on
/// the attempt; keep the attempt if the update is made, and the original if it is skipped.
///
/// Parameters share memory and ids with the original, so gradients and optimizer state belong to
/// both; reparameterizations and frozen parameters are kept. burn's strategy
/// of recomputing element-wise operations is lost, as with every `valid().train()`.
#[must_use]
pub fn attempt<M: Module>(model: &M) -> M {
    model.valid().train()
}
