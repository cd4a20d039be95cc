//! Locks and wakers for the three classes of data.
//!
//! | class | who touches it | how it is guarded |
//! |---|---|---|
//! | hard interrupt | interrupt handlers too | atomics, or an [`InterruptMutex`] for a few instructions |
//! | bottom half | interrupt-safe tasks and the bottom half | a [`BottomHalfLock`]; interrupts stay on |
//! | ordinary | ordinary tasks and the program | any lock |
//!
//! No waker is ever called while one of these locks is held.

pub mod bottom_half;
mod waker_slot;

pub use crate::arch::InterruptMutex;
pub(crate) use crate::arch::atomic;
#[cfg(not(firstpoll_loom))]
pub use bottom_half::{BottomHalfGuard, BottomHalfLock};
pub use waker_slot::WakerSlot;
