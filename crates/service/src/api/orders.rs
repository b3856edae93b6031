//! Lines of the sockets of passes: one request, one answer, in the form of
//! version 2.

use super::fault::{Code, Fault};
use super::limits::REQUEST_BYTES;
use super::version::Version;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A line: its version, and the fields of a request or an answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line<T> {
    /// The version of the format.
    pub version: u64,
    /// The other fields.
    #[serde(flatten)]
    pub body: T,
}

/// The bytes of a line, with its line feed.
///
/// # Panics
/// Never: requests and answers have JSON forms.
#[must_use]
pub fn encode_line<T: Serialize>(body: &T) -> Vec<u8> {
    let line = Line { version: Version::V2.number(), body };
    let mut line = serde_json::to_vec(&line).expect("plain data has a JSON form");
    line.push(b'\n');
    line
}

/// The request of a line, with or without its line feed.
///
/// # Errors
/// If the line is too long, is no JSON object, is of another version, or has a field that is
/// missing, wrong or unknown.
pub fn decode_order<T: DeserializeOwned>(line: &[u8]) -> Result<T, Fault> {
    if line.len() as u64 > REQUEST_BYTES {
        return Err(Fault::new(Code::TooLong, format!("the request has more than {REQUEST_BYTES} bytes")));
    }
    let invalid = |why: &dyn std::fmt::Display| {
        Fault::new(Code::InvalidRequest, format!("the request is invalid: {why}"))
    };
    let mut fields: Map<String, Value> = serde_json::from_slice(line).map_err(|error| invalid(&error))?;
    let version = fields.remove("version").and_then(|number| number.as_u64());
    if version != Some(Version::V2.number()) {
        let text = "this socket speaks version 2 only; a request has \"version\":2";
        return Err(Fault::new(Code::UnknownVersion, text));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| invalid(&error))
}

/// The answer of a line.
///
/// # Errors
/// The reason, if the line is no such answer.
pub fn decode_answer<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let line: Line<T> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(line.body)
}
