//! futures: its `block_on`, and its executor for one thread.

use std::cell::RefCell;

use ::futures::executor::{self, LocalPool, LocalSpawner};
use ::futures::task::{LocalSpawnExt, SpawnExt};

use crate::cases::Gate;
use crate::system::{BlockOn, Spawn, System, Tasks};

pub(crate) struct Futures;

impl System for Futures {
    fn new() -> Self {
        Self
    }
}

impl BlockOn for Futures {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        executor::block_on(future)
    }
}

pub(crate) struct Pool {
    pool: RefCell<LocalPool>,
    spawner: LocalSpawner,
}

impl System for Pool {
    fn new() -> Self {
        let pool = LocalPool::new();
        let spawner = pool.spawner();
        Self {
            pool: RefCell::new(pool),
            spawner,
        }
    }
}

impl BlockOn for Pool {
    #[inline]
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.pool.borrow_mut().run_until(future)
    }
}

impl Spawn for Pool {
    #[inline]
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let handle = self.spawner.spawn_local_with_handle(future);
        handle.expect("the pool is there")
    }
}

impl Tasks for Pool {
    fn spawn_detached(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawner.spawn(future).expect("the pool is there");
    }

    fn run_until(&self, gate: &Gate) {
        super::block_on_gate(self, gate);
    }
}
