//! Shows the counters of a node and the use of its budgets. `docs/reference/visibility.md` lists
//! both.

mod http;
mod text;

pub(super) use http::{bind, serve};
pub(super) use text::render;
