//! The four ways to check a batch of stripes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The methods to check stripes. All four are one linear form; they differ in where it is summed
/// and how often the sum is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Conventional: every chunk travels to the host.
    Host,
    /// Near the data, stripe by stripe: one interim per stripe from every node but one.
    Stripe,
    /// Near the data, a batch of stripes at once: one interim per batch from every node but one.
    Aggregate,
    /// Near the data, a batch at once: 64 bytes per parity row and power sum from every node.
    Fingerprint,
}

impl Method {
    /// All methods, from the one that moves most to the one that moves least.
    pub const ALL: [Self; 4] = [Self::Host, Self::Stripe, Self::Aggregate, Self::Fingerprint];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Stripe => "stripe",
            Self::Aggregate => "aggregate",
            Self::Fingerprint => "fingerprint",
        }
    }

    /// The best method for members on `nodes` nodes: on one node `stripe`, which is exact and moves
    /// nothing; on several, `fingerprint`.
    #[must_use]
    pub const fn auto(nodes: usize) -> Self {
        if nodes <= 1 { Self::Stripe } else { Self::Fingerprint }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == text)
            .ok_or_else(|| format!("'{text}' is not a method: host, stripe, aggregate or fingerprint"))
    }
}
