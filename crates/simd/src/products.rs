//! Which numbers products of matrices multiply.

use std::cell::Cell;

/// The numbers that products of matrices and convolutions multiply; tensors and sums are in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Products {
    /// The factors as they are.
    #[default]
    F32,
    /// The factors rounded to bf16.
    Bf16,
}

thread_local! {
    static CURRENT: Cell<Products> = const { Cell::new(Products::F32) };
}

impl Products {
    /// What operations of this thread multiply.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Runs operations that multiply these numbers, also in the gradients of what they compute.
    ///
    /// # Example
    /// ```
    /// use updraft_simd::Products;
    ///
    /// let inside = Products::Bf16.scope(Products::current);
    /// assert_eq!([inside, Products::current()], [Products::Bf16, Products::F32]);
    /// ```
    pub fn scope<T>(self, run: impl FnOnce() -> T) -> T {
        /// Also when `run` panics.
        struct Restore(Products);

        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }

        let _restore = Restore(CURRENT.replace(self));
        run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_ends_with_what_was_before_it_also_by_a_panic() {
        let nested = Products::Bf16.scope(|| {
            let inner = Products::F32.scope(Products::current);
            [inner, Products::current()]
        });
        assert_eq!(nested, [Products::F32, Products::Bf16]);
        let panic = std::panic::catch_unwind(|| Products::Bf16.scope(|| panic!("on purpose")));
        assert!(panic.is_err());
        assert_eq!(Products::current(), Products::F32);
        let elsewhere = Products::Bf16
            .scope(|| std::thread::spawn(Products::current).join().expect("no panic"));
        assert_eq!(elsewhere, Products::F32, "a scope is of its thread");
    }
}
