//! Why a command could not run: one message, with its causes.

use std::error::Error;
use std::fmt;

/// A message for the operator; the command exits with 2.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// Makes one of a message without a cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let words = inner.to_string();
            // Many errors already quote their cause.
            if !message.contains(&words) {
                message.push_str(": ");
                message.push_str(&words);
            }
            cause = inner.source();
        }
        Self(message)
    }
}
