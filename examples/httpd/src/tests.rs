//! Whole connections from scripted input.

mod serve;
mod session;
