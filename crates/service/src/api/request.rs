//! Requests, and the bytes of a line that carries one.

use super::fault::{Code, Fault};
use super::limits::REQUEST_BYTES;
use super::scrub::ScrubOrder;
use super::version::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A request to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Tells how the volume stands.
    Status,
    /// Fails a member.
    Fail {
        /// Its role, or its device.
        member: String,
    },
    /// Gives an empty role a device.
    Add {
        /// The device, as named on the machine of the server.
        device: PathBuf,
        /// The device is taken whatever is on it.
        force: bool,
    },
    /// Fails a member, and gives its role a device.
    Replace {
        /// Its role, or its device.
        member: String,
        /// The device, as named on the machine of the server.
        device: PathBuf,
        /// The device is taken whatever is on it.
        force: bool,
    },
    /// Scrubs the volume; answered by several lines.
    Scrub {
        /// The options.
        order: Box<ScrubOrder>,
    },
    /// Stops the volume.
    Stop,
    /// Tells what happened. Of version 3.
    Events {
        /// The number of an event: those after it are told.
        after: u64,
    },
}

/// The names of requests, with the versions that have them.
const NAMES: [(&str, Version); 7] = [
    ("status", Version::V1),
    ("fail", Version::V1),
    ("add", Version::V1),
    ("replace", Version::V1),
    ("scrub", Version::V1),
    ("stop", Version::V1),
    ("events", Version::V3),
];

/// Returns whether a version has a request of this name.
fn has(version: Version, name: &str) -> bool {
    NAMES.iter().any(|(known, since)| *known == name && version >= *since)
}

/// A line that is no request, and the version in which that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The version of the answer.
    pub version: Version,
    /// The error.
    pub fault: Fault,
}

impl Request {
    /// The line of a request, with its line feed.
    ///
    /// # Errors
    /// If a path is not UTF-8, or the line would be too long.
    pub fn encode(&self, version: Version) -> Result<Vec<u8>, Fault> {
        #[derive(Serialize)]
        struct Line<'r> {
            #[serde(skip_serializing_if = "Option::is_none")]
            version: Option<u64>,
            #[serde(flatten)]
            request: &'r Request,
        }
        let line = Line { version: version.named(), request: self };
        let wrong = |error: serde_json::Error| Fault::new(Code::InvalidRequest, error.to_string());
        let mut line = serde_json::to_vec(&line).map_err(wrong)?;
        line.push(b'\n');
        if line.len() as u64 > REQUEST_BYTES { Err(too_long()) } else { Ok(line) }
    }

    /// The request of a line, with or without its line feed, and the version of the answer.
    ///
    /// # Errors
    /// If the line is too long, is no JSON object, names a version or a request that this program
    /// does not know, or has a field that is missing, wrong or unknown.
    pub fn decode(line: &[u8]) -> Result<(Version, Self), Refused> {
        let first = |fault| Refused { version: Version::FIRST, fault };
        if line.len() as u64 > REQUEST_BYTES {
            return Err(first(too_long()));
        }
        let mut fields: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| first(invalid(&error)))?;
        let version = match fields.remove("version") {
            None => Version::V1,
            Some(number) => match number.as_u64().map(|number| (number, Version::of(number))) {
                Some((_, Some(version))) => version,
                Some((number, None)) => {
                    let (from, to) = (Version::FIRST, Version::LAST);
                    let text = format!(
                        "the request is of version {number}; this server speaks versions {from} to {to}"
                    );
                    let fault = Fault::new(Code::UnknownVersion, text);
                    return Err(Refused { version: Version::LAST, fault });
                }
                None => return Err(first(invalid(&"version: it is no positive integer"))),
            },
        };
        let refused = |fault| Refused { version, fault };
        match fields.get("ask") {
            Some(Value::String(name)) if !has(version, name) => {
                let (from, to) = (Version::FIRST, Version::LAST);
                // The name is the client's: its beginning tells enough.
                let name: String = name.chars().take(40).collect();
                let text = format!(
                    "version {version} has no request '{name}'; this server speaks versions {from} to {to}"
                );
                return Err(refused(Fault::new(Code::UnknownRequest, text)));
            }
            _ => {}
        }
        let request = serde_json::from_value(Value::Object(fields));
        Ok((version, request.map_err(|error| refused(invalid(&error)))?))
    }
}

fn invalid(why: &dyn std::fmt::Display) -> Fault {
    Fault::new(Code::InvalidRequest, format!("the request is invalid: {why}"))
}

fn too_long() -> Fault {
    Fault::new(Code::TooLong, format!("the request has more than {REQUEST_BYTES} bytes"))
}
