//! Ends connections from another thread, also those that are being made.

use crate::transport::{Closer, Socket};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that end together, at once, whatever their peers do.
#[derive(Debug, Default)]
pub struct Cut(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    next: u64,
    connections: BTreeMap<u64, Closer>,
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
        std::mem::take(&mut state.connections).into_values().for_each(|connection| connection.close());
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// If the connections were cut, or the system has no more descriptors.
    pub(crate) fn add(self: &Arc<Self>, socket: &Socket) -> io::Result<Cuttable> {
        let closer = socket.closer()?;
        let mut state = self.lock();
        if state.is_cut {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let id = state.next;
        state.next += 1;
        state.connections.insert(id, closer);
        Ok(Cuttable { cut: Arc::clone(self), id })
    }
}

impl Drop for Cuttable {
    fn drop(&mut self) {
        self.cut.lock().connections.remove(&self.id);
    }
}
