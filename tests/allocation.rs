//! `block_on` and a wake allocate and free nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;

use firstpoll::arch::host::{self, advance};
use firstpoll::arch::{self, Slot};
use firstpoll::executor::{DEFERRAL_BOUND, pass};
use firstpoll::sync::WakerSlot;
use firstpoll::{block_on, runtime, spawn};

/// Counts what each thread allocates and frees.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: everything is passed on to the system's allocator as it came; the
// counter is a `const`-initialized thread-local without a destructor, which
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The calls of the allocator that `body` makes.
fn allocator_calls(body: impl FnOnce()) -> usize {
    let before = CALLS.get();
    body();
    CALLS.get() - before
}

/// Runs `body` on a core of its own, whose clock stands still.
fn on_core(body: impl FnOnce() + Send + 'static) {
    let core = thread::spawn(|| {
        host::set_clock(arch::Instant::from_nanos(1));
        runtime::init();
        block_on(firstpoll::yield_now()); // What is set up at the first use.
        body();
    });
    core.join().expect("the test passes");
}

/// The waker of an ordinary task that waits.
fn waiting_task() -> Waker {
    let (sender, receiver) = mpsc::channel();
    spawn(poll_fn(move |context| {
        sender.send(context.waker().clone()).expect("kept");
        Poll::<()>::Pending
    }))
    .detach();
    let _ = pass(1);
    receiver.try_recv().expect("the pass has polled the task")
}

#[test]
fn the_allocator_is_counted() {
    assert!(allocator_calls(|| drop(std::hint::black_box(Box::new(1)))) >= 2);
}

#[test]
fn a_block_on_of_a_ready_future_allocates_nothing() {
    on_core(|| assert_eq!(allocator_calls(|| block_on(async {})), 0));
}

#[test]
fn a_block_on_of_a_pending_future_allocates_nothing() {
    on_core(|| {
        assert_eq!(allocator_calls(|| block_on(firstpoll::yield_now())), 0);
    });
}

#[test]
fn a_nested_block_on_allocates_nothing() {
    on_core(|| {
        let calls = allocator_calls(|| block_on(async { block_on(firstpoll::yield_now()) }));
        assert_eq!(calls, 0);
    });
}

#[test]
fn the_waker_of_block_on_is_cloned_woken_and_dropped_without_allocating() {
    on_core(|| {
        let calls = allocator_calls(|| {
            block_on(poll_fn(|context| {
                let waker = context.waker().clone();
                waker.wake_by_ref();
                drop(waker);
                Poll::Ready(())
            }));
        });
        assert_eq!(calls, 0);
    });
}

#[test]
fn a_wake_of_a_task_allocates_nothing() {
    on_core(|| {
        let waker = waiting_task();
        assert_eq!(allocator_calls(|| waker.wake_by_ref()), 0);
    });
}

#[test]
fn a_pass_over_a_task_that_stays_pending_allocates_nothing_of_its_own() {
    on_core(|| {
        spawn(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .detach();
        assert_eq!(allocator_calls(|| assert_eq!(pass(1).polled, 1)), 0);
    });
}

#[test]
fn a_block_on_with_an_overdue_task_allocates_nothing() {
    on_core(|| {
        spawn(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .detach();
        let calls = allocator_calls(|| {
            advance(DEFERRAL_BOUND);
            block_on(async {});
        });
        assert_eq!(calls, 0);
        // The pass ran: the task woke itself, which has armed the deferral.
        assert!(arch::deadline(Slot::Deferral).is_some());
    });
}

#[test]
fn a_waker_slot_wakes_without_allocating_or_freeing() {
    on_core(|| {
        let slot = WakerSlot::new();
        slot.register(&waiting_task());
        assert_eq!(allocator_calls(|| slot.wake()), 0);
    });
}
