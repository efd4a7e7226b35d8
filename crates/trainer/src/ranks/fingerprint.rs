//! A number that is the same for ranks with the same parameters.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, Transaction};
use sha2::{Digest, Sha256};

use super::packing::flat;
use crate::paths::{PathVisitor, visit_paths};

/// The first 48 bits of the SHA-256 of all parameters and statistics, in module order: a number that
/// JSON readers with f64 read exactly.
pub(crate) fn fingerprint<M: Module>(model: &M) -> u64 {
    // burn applies pending statistics at the next forward pass or in `valid`.
    drop(model.valid());
    let mut read = Read::default();
    visit_paths(model, &mut read);
    let mut digest = Sha256::new();
    for tensor in read.0.execute() {
        digest.update(tensor.as_bytes());
    }
    digest.finalize().iter().take(6).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

#[derive(Default)]
struct Read(Transaction);

impl PathVisitor for Read {
    fn visit<const D: usize>(&mut self, _path: &[String], param: &Param<Tensor<D>>) {
        let reads = std::mem::take(&mut self.0);
        self.0 = reads.register(flat(param.base().without_autodiff()));
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNormConfig, LinearConfig};
    use updraft_testing::autodiff_devices;

    use super::*;

    #[test]
    fn any_changed_parameter_or_statistic_is_another_number() {
        for device in autodiff_devices() {
            let linear = LinearConfig::new(3, 2).init(&device);
            let first = fingerprint(&linear);
            assert_eq!(fingerprint(&linear.clone()), first);
            assert!(first > 0 && first < 1 << 48);
            let mut other = linear.clone();
            other.weight = other.weight.map(|weight| weight.mul_scalar(1.000_001).detach());
            assert_ne!(fingerprint(&other), first);
            let norm = BatchNormConfig::new(2).init(&device);
            let before = fingerprint(&norm);
            let input = Tensor::<3>::ones([2, 2, 4], &device);
            drop(norm.forward(input));
            assert_ne!(fingerprint(&norm), before, "the statistics of a batch");
        }
    }
}
