//! Socket options of both ends of a connection.

use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Sends what is given without waiting for more, and over a connection within this machine without
/// regard for a network.
///
/// A congestion control that paces, as BBR does, arms a timer for each burst; in a virtual machine
/// that is an exit each time, for nothing if there is no network: reads of 128 KiB over loopback
/// take up to half as long again. Between machines it stays what the administrator chose, and so it
/// does where the system refuses another: that costs speed alone.
///
/// # Errors
/// If the socket does not take TCP_NODELAY: with small messages held back, every command would
/// wait for a delayed acknowledgement.
pub fn prepare(socket: &impl AsFd, peer: SocketAddr) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    if peer.ip().to_canonical().is_loopback() {
        let _ = setsockopt(socket, sockopt::TcpCongestion, &OsString::from("reno"));
    }
    Ok(())
}
