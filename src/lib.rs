//! A `no_std` kernel async executor with a network stack for x86-64 unikernels.
#![no_std]
