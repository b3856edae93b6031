//! Arrays that are not md's: what their structures show of writes under way.

use super::args::ScrubArgs;
use pumice_raid::Array;
use pumice_service::failure::Failure;

/// Makes the array one whose parity can be judged, if its state allows that. Returns whether it is
/// looked at as one in use: then an inconsistent stripe counts only if it stays so, and no record
/// of writes names it.
///
/// Its structures do not say whether it was stopped. So the bits of a bitmap count whenever they
/// are set, and a scrub that only reads looks at those stripes as well: one that is consistent is
/// good.
pub(super) fn is_judged(array: &mut Array, args: &ScrubArgs) -> Result<bool, Failure> {
    if args.assume_settled {
        array.assume_settled();
    }
    if array.needs_assume_settled() {
        let name = array.name();
        return Err(Failure::new(format!(
            "{name}: no bitmap that can be believed says where writes were under way: parity cannot be judged; if you know that it is whole, scrub it with --assume-settled"
        )));
    }
    if args.repairs() || args.assume_settled {
        return Ok(false);
    }
    let in_use = args.allow_in_use || array.unclean();
    if in_use {
        array.assume_running();
    }
    Ok(in_use)
}
