//! The control that holds in a thread, and what parameters share under it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use burn::tensor::{Bool, Tensor};

use crate::control::DeviceControl;
use crate::count::{Count, Followed};

thread_local! {
    static SCOPES: RefCell<Vec<Rc<Scope>>> = const { RefCell::new(Vec::new()) };
}

/// Numbers the calls of all threads.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// A call of [`controlled`](crate::controlled).
pub(crate) struct Scope {
    number: u64,
    /// Without autodiff, as the parameters of a step.
    pub(crate) control: DeviceControl,
    followed: Memo<Count, Arc<Followed>>,
    is_skipped: Memo<(), Tensor<1, Bool>>,
    corrections: Memo<Key, [Tensor<1>; 2]>,
    #[cfg(feature = "cube")]
    adamw: Memo<Key, Tensor<1>>,
}

/// A history, and the bits of the decay rates.
type Key = (Count, [u32; 2]);

/// Ends the innermost scope of a thread when it is dropped, after a panic as well.
pub(crate) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        // Tensors are dropped after the borrow.
        drop(SCOPES.with_borrow_mut(Vec::pop));
    }
}

impl Scope {
    /// Lets a control hold in this thread.
    pub(crate) fn enter(control: &DeviceControl) -> Entered {
        let plain = |number: &Tensor<1>| number.clone().without_autodiff();
        let DeviceControl { factor, is_applied, applied } = control;
        let control = DeviceControl {
            factor: plain(factor),
            is_applied: plain(is_applied),
            applied: plain(applied),
        };
        let scope = Rc::new(Self {
            number: CALLS.fetch_add(1, Ordering::Relaxed),
            control,
            followed: Memo::default(),
            is_skipped: Memo::default(),
            corrections: Memo::default(),
            #[cfg(feature = "cube")]
            adamw: Memo::default(),
        });
        SCOPES.with_borrow_mut(|scopes| scopes.push(scope));
        Entered(())
    }

    /// The scope that holds in this thread.
    pub(crate) fn current() -> Option<Rc<Self>> {
        SCOPES.with_borrow(|scopes| scopes.last().cloned())
    }

    /// The count of a parameter with this update.
    pub(crate) fn follow(&self, count: &Count) -> Arc<Followed> {
        self.followed.get(count.clone(), || {
            let DeviceControl { is_applied, applied, .. } = &self.control;
            let missed = match count {
                Count::Known(count) => applied.clone().sub_scalar(*count as f64),
                Count::OnDevice(last) if last.scope + 1 == self.number => last.missed.clone(),
                // It took no part in some updates, or another thread has a control.
                Count::OnDevice(last) => applied.clone() - last.after(),
            };
            Arc::new(Followed {
                scope: self.number,
                applied: applied.clone(),
                is_applied: is_applied.clone(),
                missed,
                most: count.most(),
                read: OnceLock::new(),
            })
        })
    }

    /// `[1]`: whether the update is not applied.
    pub(crate) fn is_skipped(&self) -> Tensor<1, Bool> {
        self.is_skipped.get((), || self.control.is_applied.clone().lower_scalar(0.5))
    }

    /// `1 − β₁ᵗ` and `1 − β₂ᵗ`, `[1]` each, for parameters of one history.
    pub(crate) fn corrections(
        &self,
        followed: &Arc<Followed>,
        beta: [f32; 2],
        make: impl FnOnce() -> [Tensor<1>; 2],
    ) -> [Tensor<1>; 2] {
        self.corrections.get(key(followed, beta), make)
    }

    /// What the kernel of `AdamW` reads, for parameters of one history.
    #[cfg(feature = "cube")]
    pub(crate) fn adamw_control(&self, followed: &Arc<Followed>, beta: [f32; 2]) -> Tensor<1> {
        self.adamw.get(key(followed, beta), || {
            let DeviceControl { factor, is_applied, applied } = self.control.clone();
            let numbers = [factor, is_applied, applied, followed.missed.clone()];
            crate::ops::adamw_control(numbers, beta)
        })
    }
}

fn key(followed: &Arc<Followed>, beta: [f32; 2]) -> Key {
    (Count::OnDevice(Arc::clone(followed)), beta.map(f32::to_bits))
}

/// Results that are computed once; a few, so a list is searched.
struct Memo<K, V>(RefCell<Vec<(K, V)>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<K: PartialEq, V: Clone> Memo<K, V> {
    fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        let found = self.0.borrow().iter().find(|(other, _)| *other == key).map(|it| it.1.clone());
        found.unwrap_or_else(|| {
            let made = make();
            self.0.borrow_mut().push((key, made.clone()));
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn number(number: f32) -> Tensor<1> {
        Tensor::from_floats([number], &Device::flex())
    }

    /// Follows updates of a control, of which the parameter takes part in some.
    fn counted(start: Count, before: f32, updates: &[(bool, bool)]) -> Count {
        let mut applied = before;
        updates.iter().fold(start, |count, &(is_applied, takes_part)| {
            let is_applied = f32::from(u8::from(is_applied));
            let control = DeviceControl {
                factor: number(1.0),
                is_applied: number(is_applied),
                applied: number(applied),
            };
            applied += is_applied;
            let _entered = Scope::enter(&control);
            let scope = Scope::current().expect("it was entered");
            if takes_part { Count::OnDevice(scope.follow(&count)) } else { count }
        })
    }

    #[test]
    fn a_parameter_counts_the_applied_updates_in_which_it_takes_part() {
        let (applied, skipped) = ((true, true), (false, true));
        let (missed, neither) = ((true, false), (false, false));
        for (start, before, updates, expected) in [
            (0, 0.0, &[applied, applied, skipped, applied][..], 3),
            (0, 0.0, &[skipped, skipped], 0),
            (7, 7.0, &[applied, skipped], 8),
            // It begins later than the control, and misses some.
            (0, 40.0, &[applied, missed, missed, applied, skipped, missed, applied], 3),
            (5, 2.0, &[missed, neither, applied, neither, missed, skipped, applied], 7),
        ] {
            let count = counted(Count::Known(start), before, updates);
            assert_eq!(count.read(), expected, "{start}, {before}, {updates:?}");
            assert!(count.most() >= expected);
        }
    }

    #[test]
    fn parameters_of_one_history_share_their_numbers() {
        let control =
            DeviceControl { factor: number(1.0), is_applied: number(1.0), applied: number(3.0) };
        let _entered = Scope::enter(&control);
        let scope = Scope::current().expect("it was entered");
        let first = scope.follow(&Count::Known(3));
        assert!(Arc::ptr_eq(&first, &scope.follow(&Count::Known(3))));
        assert!(!Arc::ptr_eq(&first, &scope.follow(&Count::Known(2))));
    }
}
