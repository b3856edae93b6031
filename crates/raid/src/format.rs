//! Array formats: the one trait behind which each of them finds its structures on devices, and
//! makes arrays of them.
//!
//! `docs/design/arrays.md` has the rules, `docs/how-to/add-an-array-format.md` the steps for
//! another format.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::assembly::Array;
use crate::inspect::InspectReport;
use crate::metadata::Metadata;
use crate::read_at::ReadAt;
use crate::uuid::Uuid;

pub use crate::unfit::Unfit;

/// Digits of a UUID that are enough to name an array.
const LEAST_DIGITS: usize = 6;

/// A structure that the probe of a format found on a device, in a type of that format.
#[derive(Clone)]
pub struct Found(Arc<dyn Any + Send + Sync>);

impl Found {
    /// A structure of the format's own type.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(structure: T) -> Self {
        Self(Arc::new(structure))
    }

    /// The structure, if it is of this type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Found(..)")
    }
}

/// Facts that the operator states before devices are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// The version of md's superblocks that count.
    pub metadata: Option<Metadata>,
}

/// A device on which a format found a structure.
#[derive(Clone, Copy)]
pub struct Seen<'d> {
    /// The name under which messages call it.
    pub name: &'d str,
    /// Its bytes.
    pub bytes: &'d dyn ReadAt,
    /// The result of [`ArrayFormat::probe`].
    pub found: &'d Found,
}

/// A run of bytes of a member on one of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Index of the device among those that were given.
    pub device: usize,
    /// First byte on it.
    pub start: u64,
    /// Bytes, at least 1.
    pub bytes: u64,
}

/// Place of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberPlace {
    /// A whole device, by its index.
    Device(usize),
    /// Pieces, from the member's first byte to its last.
    Pieces(Vec<Piece>),
}

/// An array that can be checked, and the places of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The array.
    pub array: Array,
    /// By role; `None` if the member is absent.
    pub places: Vec<Option<MemberPlace>>,
    /// The reason why nothing of it may be repaired, if there is one.
    pub fixed: Option<String>,
}

/// An array that was found, whether or not it can be checked.
#[derive(Debug, Clone)]
pub struct FoundArray {
    /// The devices that belong to it, by their index.
    pub devices: Vec<usize>,
    /// Its description, with the reasons if it cannot be checked.
    pub report: InspectReport,
}

/// The arrays of one format on a set of devices.
#[derive(Debug, Clone, Default)]
pub struct Surveyed {
    /// The arrays.
    pub arrays: Vec<FoundArray>,
    /// Problems that belong to no array, each with the name of its device.
    pub problems: Vec<String>,
}

/// A format of arrays. Everything that differs from format to format in finding an array is asked
/// here; a scrub sees an [`Array`].
pub trait ArrayFormat: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The words for what its probe finds, such as "md superblock".
    fn structure(&self) -> &'static str;

    /// Looks for its structures on devices that are named together. `None`: it has none there.
    ///
    /// # Errors
    /// In the place of a device: its structures are damaged, or something else claims their place.
    fn probe(&self, devices: &[&dyn ReadAt], asked: Asked) -> Vec<Result<Option<Found>, String>>;

    /// Describes the arrays on devices with its structures, whole or broken.
    fn survey(&self, devices: &[Seen<'_>]) -> Surveyed;

    /// Assembles one array: the one that `which` names, or the only one.
    ///
    /// # Errors
    /// If it cannot be checked, or devices are of several arrays and none is named.
    fn assemble(&self, devices: &[Seen<'_>], which: Option<&str>) -> Result<Placed, Unfit>;
}

/// Returns whether `asked` names an array: its name, its name without the host (`data` for
/// `host:data`), or its UUID in any spelling, of which six digits are enough.
#[must_use]
pub fn is_named(asked: &str, name: &str, uuid: Uuid) -> bool {
    let alone = name.split_once(':').map(|(_, alone)| alone);
    if !name.is_empty() && (asked == name || alone == Some(asked)) {
        return true;
    }
    let digits: String = asked.chars().filter(|c| !matches!(c, ':' | '-')).collect();
    let digits = digits.to_ascii_lowercase();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let whole: String = uuid.0.iter().map(|byte| format!("{byte:02x}")).collect();
    is_hex && digits.len() >= LEAST_DIGITS && whole.starts_with(&digits)
}

/// The one of several arrays that `which` names, or the only one: its index.
///
/// # Errors
/// If none is named so, or several are.
pub fn choose(arrays: &[(String, Uuid)], which: Option<&str>) -> Result<usize, Unfit> {
    let words = |(name, uuid): &(String, Uuid)| match name.is_empty() {
        true => uuid.to_string(),
        false => name.clone(),
    };
    let list = |of: &[usize]| of.iter().map(|i| words(&arrays[*i])).collect::<Vec<_>>().join(", ");
    let all: Vec<usize> = (0..arrays.len()).collect();
    let fits = |i: &usize| which.is_none_or(|asked| is_named(asked, &arrays[*i].0, arrays[*i].1));
    let found: Vec<usize> = all.iter().copied().filter(fits).collect();
    match (found.as_slice(), which) {
        ([one], _) => Ok(*one),
        ([], Some(asked)) if all.is_empty() => {
            Err(Unfit::new(format!("no array is named '{asked}': the devices carry none")))
        }
        ([], Some(asked)) => {
            Err(Unfit::new(format!("no array is named '{asked}': the devices carry {}", list(&all))))
        }
        ([], None) => Err(Unfit::new("the devices carry no array")),
        (several, Some(asked)) => Err(Unfit::new(format!("'{asked}' names {}", list(several)))),
        (several, None) => Err(Unfit::new(format!(
            "the devices carry {} arrays: name one with --array: {}",
            several.len(),
            list(several)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_a_name_and_spellings_of_its_uuid() {
        let uuid: Uuid = "59de1f8d:6f97b75c:00112233:44556677".parse().unwrap();
        for asked in [
            "lab1:data",
            "data",
            "59de1f8d:6f97b75c:00112233:44556677",
            "59de1f8d-6f97-b75c-0011-223344556677",
            "59DE1F8D6F97B75C0011223344556677",
            "59de1f",
        ] {
            assert!(is_named(asked, "lab1:data", uuid), "{asked}");
        }
        for asked in ["lab1", "dat", "59de1", "59de1f8e", "", "-", "59de1f8d:6f97b75c:00112233:445566778"] {
            assert!(!is_named(asked, "lab1:data", uuid), "{asked}");
        }
        assert!(!is_named("", "", uuid), "an array without a name");
    }

    #[test]
    fn one_array_is_chosen_or_all_are_listed() {
        let arrays = [("vg/a".to_owned(), Uuid([1; 16])), ("vg/b".to_owned(), Uuid([2; 16]))];
        assert_eq!(choose(&arrays, Some("vg/b")), Ok(1));
        assert_eq!(choose(&arrays, Some("010101")), Ok(0));
        assert_eq!(choose(&arrays[..1], None), Ok(0));
        for which in [None, Some("vg/c")] {
            let why = choose(&arrays, which).unwrap_err().to_string();
            assert!(why.contains("vg/a, vg/b"), "{why}");
        }
        assert!(choose(&[], None).is_err());
    }
}
