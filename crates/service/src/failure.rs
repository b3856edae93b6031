//! Reason why something could not be done: one message with its causes, and a code.

use crate::api::{Code, Fault};
use pumice_executor::ControlError;
use std::error::Error;
use std::fmt;

/// A message for the operator, and its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    /// Makes one of a message without a cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self::coded(Code::Failed, message)
    }

    /// Makes one of a kind.
    pub fn coded(code: Code, message: impl Into<String>) -> Self {
        Self { code, text: message.into() }
    }

    /// The same, of a kind if it has none yet.
    #[must_use]
    pub fn or(self, code: Code) -> Self {
        if self.code == Code::Failed { Self { code, ..self } } else { self }
    }

    /// The same for the socket.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code, self.text.clone())
    }

    /// One that came over the socket.
    #[must_use]
    pub fn of(fault: Fault) -> Self {
        Self::coded(fault.code.unwrap_or(Code::Failed), fault.text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
        Self::new(message)
    }
}

/// The volume's own refusal, with its code.
pub(crate) fn refused(error: ControlError) -> Failure {
    let code = match &error {
        ControlError::Stopped => Code::Stopped,
        ControlError::Unanswered => Code::Unanswered,
        ControlError::NoStripes => Code::Failed,
        ControlError::NoRole(_) => Code::NoMember,
        ControlError::Missing(_) => Code::Missing,
        ControlError::Held => Code::Held,
        ControlError::NotRecorded => Code::NotRecorded,
        ControlError::TooFew => Code::TooFew,
        ControlError::OthersMissing | ControlError::Rebuilding { .. } => Code::OthersMissing,
        ControlError::Full => Code::NoneMissing,
        ControlError::Taken(_) => Code::Taken,
        ControlError::IsMember { .. } => Code::IsMember,
        ControlError::Device { .. } | ControlError::NotBack { .. } => Code::Device,
    };
    Failure::from(error).or(code)
}
