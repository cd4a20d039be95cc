//! loom's atomics, with interrupts between any two of their operations.
//!
//! loom takes `SeqCst` accesses for `AcqRel` ones and knows a total order only
//! of fences. So a `SeqCst` store or read-modify-write is followed by a fence
//! here, which is what x86-64 makes of it; a `SeqCst` load stays an acquiring
//! one, as there. Stronger than the language in one respect: a weaker load that
//! follows such a store is ordered too.

pub(crate) use loom::sync::atomic::Ordering;

use crate::arch::model::interruption_point;

fn fence_if_seq_cst(order: Ordering) {
    if order == Ordering::SeqCst {
        loom::sync::atomic::fence(order);
    }
}

macro_rules! atomic {
    ($name:ident $(<$T:ident>)?, $value:ty $(, $fetch:ident)*) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$T>)? {
            inner: loom::sync::atomic::$name $(<$T>)?,
        }

        #[allow(dead_code)] // Not every type needs every operation.
        impl $(<$T>)? $name $(<$T>)? {
            pub(crate) fn new(value: $value) -> Self {
                Self {
                    inner: loom::sync::atomic::$name::new(value),
                }
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                interruption_point();
                self.inner.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                interruption_point();
                self.inner.store(value, order);
                fence_if_seq_cst(order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                interruption_point();
                let before = self.inner.swap(value, order);
                fence_if_seq_cst(order);
                before
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                interruption_point();
                let result = self.inner.compare_exchange(current, new, success, failure);
                fence_if_seq_cst(if result.is_ok() { success } else { failure });
                result
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            $(
                pub(crate) fn $fetch(&self, value: $value, order: Ordering) -> $value {
                    interruption_point();
                    let before = self.inner.$fetch(value, order);
                    fence_if_seq_cst(order);
                    before
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU32, u32, fetch_add, fetch_or, fetch_and);
atomic!(AtomicU64, u64, fetch_add, fetch_or, fetch_and);
atomic!(AtomicUsize, usize, fetch_add);
atomic!(AtomicPtr<T>, *mut T);
