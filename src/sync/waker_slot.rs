//! A place for one waker that interrupt handlers may wake.

use core::fmt;
use core::task::Waker;

use super::InterruptMutex;
use super::atomic::const_fn;

/// Holds the waker of whoever waits for an event, for an interrupt to wake.
///
/// The event may come at any time; it wakes the waker that was registered
/// last, which stays registered. As with any condition, the waiting side
/// registers first and checks for the event afterwards.
///
/// # Interrupt safety
///
/// [`wake`](Self::wake) may be called from interrupts and neither allocates
/// nor frees; [`register`](Self::register) may not be called from one.
#[derive(Default)]
pub struct WakerSlot {
    wakers: InterruptMutex<Wakers>,
}

#[derive(Default)]
struct Wakers {
    current: Option<Waker>,
    /// Counts what has been put into `current`, so that a `wake` does not put
    /// an older waker back.
    registration: u64,
    /// Replaced while a `wake` had it in its hands; dropped by the next
    /// registration, since an interrupt must not free.
    retired: Option<Waker>,
}

impl WakerSlot {
    const_fn! {
        /// An empty slot.
        pub const fn new() -> Self {
            Self {
                wakers: InterruptMutex::new(Wakers {
                    current: None,
                    registration: 0,
                    retired: None,
                }),
            }
        }
    }

    /// Replaces the waker by a clone of `waker`, unless both wake the same task.
    pub fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if wakers
            .current
            .as_ref()
            .is_some_and(|current| current.will_wake(waker))
        {
            return;
        }
        drop(wakers);
        // Cloned and dropped outside of the lock: both may run foreign code.
        let clone = waker.clone();
        wakers = self.wakers.lock();
        let replaced = wakers.current.replace(clone);
        wakers.registration += 1;
        let retired = wakers.retired.take();
        drop(wakers);
        drop((replaced, retired));
    }

    /// Wakes the registered waker, if there is one.
    pub fn wake(&self) {
        // Taken out while it is woken: a waker may register again in this very
        // slot, so no lock may be held.
        let mut wakers = self.wakers.lock();
        let Some(waker) = wakers.current.take() else {
            return;
        };
        let registration = wakers.registration;
        drop(wakers);
        waker.wake_by_ref();
        wakers = self.wakers.lock();
        // The place may be empty although another was registered: a second
        // `wake` has that one in its hands.
        let place = if wakers.registration == registration {
            &mut wakers.current
        } else {
            // The registration has emptied this place.
            &mut wakers.retired
        };
        let unplaced = place.replace(waker);
        drop(wakers);
        drop(unplaced);
    }
}

impl fmt::Debug for WakerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakerSlot").finish_non_exhaustive()
    }
}
