//! Results of computations for hosts that authenticate.

use super::Core;
use pumice_nvme::auth::Computed;

impl Core {
    /// Computations are done. A connection that is gone needs none any more.
    pub(super) fn computed(&mut self, computed: Vec<(usize, Computed)>) {
        for (number, computed) in computed {
            if let Some(socket) = self.sockets.get_mut(&number) {
                socket.computed(&self.shared, computed);
                self.turns.push(number);
            }
        }
    }
}
