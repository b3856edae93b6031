//! The array formats that are known. A new one is a line here, see
//! `docs/how-to/add-an-array-format.md`.

use pumice_raid::format::ArrayFormat;
use pumice_raid::lvm::format::Lvm;
use pumice_raid::md::Md;

/// The formats, in the order in which devices are searched: the first that finds its structures on
/// a device has it. md comes first, because LVM's label can be seen through a member of a mirror.
pub const FORMATS: [&dyn ArrayFormat; 2] = [&Md, &Lvm];
