//! Requests, answers, errors and events of a volume in service: values that have bytes.
//!
//! `docs/reference/control.md` has the format, its versions and its limits. This module reads no
//! clock and opens no file: bytes come as arguments.

mod answer;
mod event;
mod fault;
mod limits;
mod orders;
mod pass;
mod request;
mod scrub;
mod version;
mod volume;

pub use answer::{Answer, decode, encode};
pub use event::{Event, Events, LossCause, Severity, Told};
pub use fault::{Code, Fault};
pub use limits::{
    ANSWER_BYTES, ANSWER_TIME, CLIENTS, EVENTS_AT_ONCE, EVENTS_KEPT, LINE_TIME, REQUEST_BYTES,
    SCRUB_LINE_BYTES, STOP_TIME,
};
pub use orders::{Line, decode_answer, decode_order, encode_line};
pub use pass::{PassAnswer, PassPhase, PassRequest, PassState};
pub use request::{Refused, Request};
pub use scrub::{ScrubDone, ScrubOrder, ScrubProgress};
pub use version::Version;
pub use volume::{
    Absent, Condition, Member, MemberError, Moved, Parity, Recovered, Served, Survives, Volume, Work,
};
