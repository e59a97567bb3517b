//! What a hostile client can do, over real sockets: nothing but what it may.

mod admin;
mod destinations;
mod identity;
mod limits;
mod peers;
mod refusals;
mod smuggling;
mod tls;
