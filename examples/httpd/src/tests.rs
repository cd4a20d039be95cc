//! Whole connections from scripted input.

mod routes;
mod serve;
mod session;
mod stream;
