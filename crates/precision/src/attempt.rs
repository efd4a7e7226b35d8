//! A model to try an update on.

use burn::module::Module;

/// The same model with running statistics of its own.
///
/// A forward pass in training moves the running statistics of batch norms, and clones of a burn
/// module share them: an update that is to be undone must not touch the original. Run the step on
/// the attempt, keep the attempt if the step counts, and the original if it does not.
///
/// Parameters share their memory and their ids with the original, so that gradients and optimizer
/// state fit both; reparameterizations and frozen parameters stay what they are. burn's strategy
/// of recomputing element-wise operations is lost, as with every `valid().train()`.
#[must_use]
pub fn attempt<M: Module>(model: &M) -> M {
    model.valid().train()
}
