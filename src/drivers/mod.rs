//! Drivers: they know neither the executor nor the network.

pub mod console;
