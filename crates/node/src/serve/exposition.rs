//! Shows those who watch a node what it counts, and how near its bounds are.
//! `docs/reference/visibility.md` lists both.

mod http;
mod text;

pub(super) use http::{bind, serve};
pub(super) use text::render;
