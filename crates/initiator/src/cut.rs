//! Ends connections from another thread, also those that are being made.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that end together, at once, whatever their peers do.
#[derive(Debug, Default)]
pub struct Cut(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    next: u64,
    streams: BTreeMap<u64, TcpStream>,
}

/// A connection that ends with the others of a [`Cut`], as long as this value lives.
#[derive(Debug)]
pub(crate) struct Cuttable {
    cut: Arc<Cut>,
    id: u64,
}

impl Cut {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every connection: callers that wait for an answer get an error at once, and no further
    /// connection is made.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.is_cut = true;
        for stream in std::mem::take(&mut state.streams).into_values() {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// If the connections were cut, or the system has no more descriptors.
    pub(crate) fn add(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Cuttable> {
        let stream = stream.try_clone()?;
        let mut state = self.lock();
        if state.is_cut {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let id = state.next;
        state.next += 1;
        state.streams.insert(id, stream);
        Ok(Cuttable { cut: Arc::clone(self), id })
    }
}

impl Drop for Cuttable {
    fn drop(&mut self) {
        self.cut.lock().streams.remove(&self.id);
    }
}
