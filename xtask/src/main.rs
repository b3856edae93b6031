//! Development entry points.
fn main() {}
