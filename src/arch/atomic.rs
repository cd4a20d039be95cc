//! The atomics, and what stands in for them when the models are built.

#[cfg(firstpoll_loom)]
mod model;

#[cfg(not(firstpoll_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(firstpoll_loom)]
pub(crate) use model::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Writes a constructor that is `const`, except in the models, whose atomics
/// no constant can hold.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(firstpoll_loom))]
        $(#[$attribute])*
        $vis const fn $($rest)*

        #[cfg(firstpoll_loom)]
        $(#[$attribute])*
        $vis fn $($rest)*
    };
}
pub(crate) use const_fn;
