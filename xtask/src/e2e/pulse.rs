//! Detection of standstills of this machine: a guest that gets no processor for a minute complains
//! of everybody but its host.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between looks.
const TICK: Duration = Duration::from_millis(200);
/// Longer than a busy machine makes a thread wait, and shorter than what a kernel takes for a
/// lock-up.
const STILL: Duration = Duration::from_secs(8);

/// Times at which this process had no processor.
pub(crate) struct Pulse(Arc<Mutex<Vec<(Instant, Duration)>>>);

impl Pulse {
    /// Begins to look. The thread ends with the process, or with this value.
    pub(crate) fn begin() -> Self {
        let gaps = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::downgrade(&gaps);
        std::thread::spawn(move || {
            let mut last = Instant::now();
            loop {
                std::thread::sleep(TICK);
                let now = Instant::now();
                let Some(gaps) = own.upgrade() else { break };
                if now - last > STILL {
                    gaps.lock().unwrap_or_else(PoisonError::into_inner).push((now, now - last));
                }
                last = now;
            }
        });
        Self(gaps)
    }

    /// The longest standstill that ended after `start`.
    pub(crate) fn longest_since(&self, start: Instant) -> Option<Duration> {
        let gaps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gaps.iter().filter(|(end, _)| *end > start).map(|(_, gap)| *gap).max()
    }
}
