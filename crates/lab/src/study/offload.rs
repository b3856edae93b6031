//! The study of offload: scrubbing by drives that have a parity engine, against the published
//! measurements, and for drives of today. `docs/design/offload-study.md` describes the model and
//! its settings.

mod machine;
mod pass;
mod platform;
mod published;
mod study;

pub use pass::{AHEAD, Method, Outcome, PlatformError, run};
pub use platform::Platform;
pub use published::{Contradiction, contradictions};
pub use study::{Basis, Cell, Fits, Report, Row, Variant, study};
