//! The study of flash: one trace of contents, several schemes of deduplication. `docs/ftl.md` describes the schemes.

mod study;
mod trace;

pub use study::{Report, Row, Settings, Study, study};
pub use trace::{ContentOp, ContentTrace};
