//! The socket of a pass.

use super::control::PassControl;
use crate::api::{Fault, PassAnswer, PassRequest, decode_order, encode_line};
use crate::folder::path_of;
use crate::listener::{Listener, Peer, refusal};
use crate::socket::SocketPlace;
use std::path::Path;
use std::sync::Arc;

/// The socket of a pass, which answers until this is dropped.
pub struct PassSocket {
    place: SocketPlace,
}

impl PassSocket {
    /// Listens for orders to a pass over the array of a UUID. `None` if that is not possible, or
    /// another process has the socket: a pass goes on without.
    #[must_use]
    pub fn open(folder: &Path, uuid: &str, control: &Arc<PassControl>) -> Option<Self> {
        let listener = Listener::open(&path_of(folder, uuid)).ok().flatten()?;
        let (place, control) = (listener.place(), Arc::clone(control));
        let serve = move || listener.serve(move |line, peer| answer(&control, line, peer));
        std::thread::Builder::new().name("pass-socket".to_owned()).spawn(serve).ok()?;
        Some(Self { place })
    }
}

impl Drop for PassSocket {
    fn drop(&mut self) {
        self.place.remove();
    }
}

fn answer(control: &PassControl, line: &[u8], peer: Peer) -> Vec<u8> {
    let said = || -> Result<PassAnswer, Fault> {
        let request: PassRequest = decode_order(line)?;
        if request != PassRequest::Status {
            peer.check()?;
        }
        Ok(control.answer(&request))
    };
    said().map_or_else(refusal, |answer| encode_line(&answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Code, decode_answer};
    use pumice_offload::PaceRequest;

    #[test]
    fn a_state_is_for_all_and_orders_for_few() {
        let control = PassControl::new("a test", &PaceRequest::default());
        control.knows("u", "n", true, true);
        let said = |line: &[u8], may_order| {
            decode_answer::<PassAnswer>(&answer(&control, line, Peer { may_order })).unwrap()
        };
        let code = |answer: PassAnswer| match answer {
            PassAnswer::Error(fault) => fault.code,
            PassAnswer::Scrub(_) => None,
        };
        assert_eq!(code(said(b"{\"version\":2,\"ask\":\"status\"}\n", false)), None);
        for order in ["pause", "go_on", "stop"] {
            let line = format!("{{\"version\":2,\"ask\":\"{order}\"}}");
            assert_eq!(code(said(line.as_bytes(), false)), Some(Code::NotAllowed), "{order}");
        }
        assert!(!control.is_raised());
        assert_eq!(code(said(b"{\"ask\":\"stop\"}", true)), Some(Code::UnknownVersion));
        assert_eq!(code(said(b"{\"version\":2,\"ask\":\"pace\",\"x\":1}", true)), Some(Code::InvalidRequest));
        assert_eq!(code(said(b"{\"version\":2,\"ask\":\"stop\"}", true)), None);
        assert!(control.is_raised());
    }
}
