//! The order in which a pass visits an array.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The order of the batches of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// From the first stripe to the last.
    #[default]
    Sequential,
    /// A batch from every region of the array, then the next from every region.
    Staggered,
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sequential" => Ok(Self::Sequential),
            "staggered" => Ok(Self::Staggered),
            _ => Err(format!("'{text}' is not an order: sequential or staggered")),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sequential => "sequential",
            Self::Staggered => "staggered",
        })
    }
}
