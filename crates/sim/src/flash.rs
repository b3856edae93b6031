//! The study of flash: one trace of contents, several schemes of deduplication.
//! `docs/design/flash-study.md` describes the schemes.

mod load;
mod study;
mod trace;
mod victim;

pub use load::Load;
pub use study::{Fdp, Report, Row, Settings, Source, Study, study};
pub use trace::{ContentOp, ContentTrace};
pub use victim::VictimPolicy;
