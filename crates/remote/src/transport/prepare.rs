//! Socket options of both ends of a connection.

use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Disables the delay of small messages and, for a connection within this machine, uses a
/// congestion control without pacing.
///
/// A congestion control that paces, as BBR does, arms a timer for each burst; in a virtual machine
/// that is an exit each time, for nothing if there is no network: reads of 128 KiB over loopback
/// take up to half as long again. Between machines the administrator's choice applies, and also if
/// the system refuses another one: that only costs speed.
///
/// # Errors
/// If the socket does not take TCP_NODELAY: with small messages held back, every command would
/// wait for a delayed acknowledgement.
pub fn prepare(socket: &impl AsFd, peer: SocketAddr) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    if peer.ip().to_canonical().is_loopback() {
        // Refused, it costs speed.
        let _ = setsockopt(socket, sockopt::TcpCongestion, &OsString::from("reno"));
    }
    Ok(())
}
