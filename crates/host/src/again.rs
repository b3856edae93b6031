//! Reading an array again that is not md's.

use pumice_raid::Array;
use pumice_raid::assembly::AgainError;
use pumice_raid::format::Unfit;

/// A reader of the structures that make the members of a target an array. A target of md's needs
/// none: its superblocks are read from its members' nodes.
pub trait ReadAgain: Send + Sync {
    /// Reads the structures again. The result is not assumed to be running.
    ///
    /// # Errors
    /// If they make no such array now, or cannot be read.
    fn read_again(&self) -> Result<Array, AgainError>;
}

/// The reader of an array that is not md's and was given none.
pub(crate) struct Nothing;

impl ReadAgain for Nothing {
    fn read_again(&self) -> Result<Array, AgainError> {
        Err(Unfit::new("nothing reads the structures of this array again").into())
    }
}
