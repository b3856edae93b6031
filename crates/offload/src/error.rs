//! Errors of a node.

use std::error::Error;
use std::fmt;

/// The kind of a failure, on which callers base decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The medium refused these bytes; others of the drive may still be read or written.
    Media,
    /// The drive failed as a whole: it is gone, or its errors do not refer to single bytes.
    Drive,
    /// A field of the command is invalid on this node.
    InvalidField(&'static str),
    /// The drive may not be written.
    ReadOnly,
    /// Other hosts prevent it.
    Busy,
    /// The node, or the peer that it should send to, did not answer in time.
    Unreachable,
}

/// A failed command: kind, context and source.
#[derive(Debug)]
pub struct NodeError {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl NodeError {
    /// A failure, with a description of the attempted action.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// The same with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// A command whose field `field` is wrong.
    pub fn invalid(field: &'static str, context: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidField(field), context)
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::InvalidField(field) => write!(f, "invalid field '{field}': {}", self.context),
            _ => f.write_str(&self.context),
        }
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|s| &**s as &(dyn Error + 'static))
    }
}
