//! Requests to the monitor, and its answers.

use super::fault::Fault;
use serde::{Deserialize, Serialize};

/// A request to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum MonitorRequest {
    /// Tells how everything stands.
    Status,
    /// Lets an array rest until noon.
    Skip {
        /// Its name or UUID.
        array: String,
    },
    /// Notes that a person knows of an alert.
    Acknowledge {
        /// The kind of the alert.
        kind: String,
        /// The subject of the alert, or the name of its array.
        subject: String,
        /// The person.
        name: String,
        /// Reason or remedy.
        reason: String,
    },
    /// Holds back mails.
    Quiet {
        /// The subject, or the name of an array.
        subject: String,
        /// For this number of seconds; 0 ends it.
        seconds: u64,
    },
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitorAnswer {
    /// The state.
    Monitor(Box<MonitorState>),
    /// The order was carried out.
    Done(bool),
    /// The request came to nothing.
    Error(Fault),
}

/// The state of the monitor. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MonitorState {
    /// Time of this copy.
    pub at: i64,
    /// Time of the last look at arrays.
    pub looked: i64,
    /// The arrays.
    pub arrays: Vec<ArrayState>,
    /// The alerts that are open.
    pub alerts: Vec<AlertState>,
    /// The channels.
    pub channels: Vec<ChannelState>,
}

/// An array, as the monitor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayState {
    /// Its UUID.
    pub uuid: String,
    /// Its name; may be empty.
    pub name: String,
    /// Time at which it is due; `None` if it never is.
    pub due: Option<i64>,
    /// Time from which its oldest cell ages; `None` without members.
    pub oldest: Option<i64>,
    /// True if a run of the monitor reads it.
    pub running: bool,
    /// Work of others on it.
    pub work: Option<String>,
}

/// An alert that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertState {
    /// Its kind.
    pub kind: String,
    /// `critical`, `warning` or `info`.
    pub severity: String,
    /// Its subject.
    pub subject: String,
    /// Time at which it opened.
    pub opened: i64,
    /// The last words.
    pub detail: String,
    /// True if a person knows of it.
    pub acknowledged: bool,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelState {
    /// Its name.
    pub name: String,
    /// The words of its last failure, if it did not take the last message.
    pub failed: Option<String>,
}
