//! The command from outside. Where a test names `pumice`, it means `pumice-lab`.

mod flash;
mod leaving;
#[path = "../../../cli/tests/cli/nodes.rs"]
#[expect(dead_code, reason = "shared with the tests of `pumice`, which use all of it")]
mod nodes;
mod output;
mod pretended;
mod program;
mod refused;
#[path = "../../../cli/tests/cli/small_array.rs"]
#[expect(dead_code, reason = "shared with the tests of `pumice`, which use all of it")]
mod small_array;
