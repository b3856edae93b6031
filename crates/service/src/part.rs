//! Names of parts of devices of this machine: `DISK,partition=3`, `IMAGE,offset=1MiB,size=512MiB`.

use crate::failure::Failure;
use crate::mapped::{MappedDevice, Run};
use crate::probed::Place;
use pumice_base::units::{SECTOR, parse_size};
use pumice_blockdev::BlockDevice;
use pumice_raid::{ReadAt, partition};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The options that name a part.
const OPTIONS: [&str; 3] = ["partition", "offset", "size"];

/// A part of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A partition of its table, by its number.
    Partition(u32),
    /// Bytes from an offset on: so many, or all to its end.
    Range {
        /// The first byte.
        offset: u64,
        /// Bytes.
        size: Option<u64>,
    },
}

/// Splits the name of a device into its path and the part of it that is meant, if one is. A file
/// whose name looks so is that file.
///
/// # Errors
/// If an option is none, or has a value that it cannot have.
pub fn split(name: &Path) -> Result<(PathBuf, Option<Part>), Failure> {
    let whole = || (name.to_owned(), None);
    let Some(text) = name.to_str() else { return Ok(whole()) };
    let at = OPTIONS.iter().filter_map(|option| text.find(&format!(",{option}="))).min();
    let Some(at) = at.filter(|_| !name.exists()) else { return Ok(whole()) };
    let wrong = |why: String| Failure::new(format!("{text}: {why}"));
    let (mut number, mut offset, mut size) = (None, None, None);
    for option in text[at + 1..].split(',') {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let bytes = || {
            let bytes = parse_size(value).map_err(|error| wrong(format!("{key}: {error}")))?;
            let whole = bytes % SECTOR == 0;
            if whole { Ok(bytes) } else { Err(wrong(format!("{key}: it must be a multiple of 512"))) }
        };
        let known = match key {
            "partition" => {
                let parsed = value.parse().ok().filter(|number| *number > 0);
                let parsed: u32 =
                    parsed.ok_or_else(|| wrong("partition: it is a number from 1 on".to_owned()))?;
                number.replace(parsed).is_some()
            }
            "offset" => offset.replace(bytes()?).is_some(),
            "size" => size.replace(bytes()?).is_some(),
            _ => return Err(wrong(format!("'{key}' is no option of a part: partition, or offset and size"))),
        };
        if known {
            return Err(wrong(format!("{key} is given twice")));
        }
    }
    let part = match (number, offset, size) {
        (Some(number), None, None) => Part::Partition(number),
        (Some(_), ..) => return Err(wrong("partition goes without offset and size".to_owned())),
        (None, _, Some(0)) => return Err(wrong("size: it must be more than 0".to_owned())),
        (None, offset, size) => Part::Range { offset: offset.unwrap_or(0), size },
    };
    Ok((PathBuf::from(&text[..at]), Some(part)))
}

/// A device as the reader of its table sees it.
struct Reader<'d>(&'d dyn BlockDevice);

impl ReadAt for Reader<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buf).map_err(io::Error::other)
    }
}

/// The part of a device.
///
/// # Errors
/// If it is not on the device.
pub fn part_of(
    device: Arc<dyn BlockDevice>,
    part: Part,
    name: &Path,
) -> Result<Arc<dyn BlockDevice>, Failure> {
    let name = name.display().to_string();
    let range = match part {
        Part::Partition(number) => partition::place(&Reader(&*device), number)
            .map_err(|error| Failure::new(format!("{name}: {error}")))?,
        Part::Range { offset, size } => {
            let has = device.size_bytes();
            let end = size.map_or(Some(has), |size| offset.checked_add(size));
            let inside = end.filter(|end| offset < *end && *end <= has);
            let outside = || Failure::new(format!("{name}: the device has {has} bytes"));
            offset..inside.ok_or_else(outside)?
        }
    };
    let run = Run { place: Place::Here(device), start: range.start, bytes: range.end - range.start };
    Ok(Arc::new(MappedDevice::new(name, vec![run])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_blockdev::MemoryDevice;

    #[test]
    fn a_part_is_a_partition_or_a_range() {
        let part = |text: &str| split(Path::new(text)).map_err(|failure| failure.to_string());
        let parts = [
            ("a.img,partition=3", Part::Partition(3)),
            ("a.img,offset=1MiB", Part::Range { offset: 1 << 20, size: None }),
            ("a.img,size=8KiB,offset=512", Part::Range { offset: 512, size: Some(8192) }),
        ];
        for (text, expected) in parts {
            assert_eq!(part(text), Ok(("a.img".into(), Some(expected))), "{text}");
        }
        assert_eq!(part("a,b.img"), Ok(("a,b.img".into(), None)));
        for (text, word) in [
            ("a,partition=0", "from 1 on"),
            ("a,partition=1,partition=2", "twice"),
            ("a,partition=1,offset=0", "without offset"),
            ("a,offset=100", "multiple of 512"),
            ("a,size=0", "more than 0"),
            ("a,offset=0,pi=16", "'pi' is no option"),
        ] {
            let why = part(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn a_file_of_that_name_is_a_file_and_a_range_is_on_its_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a,offset=512");
        std::fs::write(&path, "").unwrap();
        assert_eq!(split(&path).unwrap(), (path.clone(), None));
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("d", 8192));
        let part = |offset, size| part_of(Arc::clone(&device), Part::Range { offset, size }, Path::new("d"));
        assert_eq!(part(512, None).unwrap_or_else(|_| panic!()).size_bytes(), 7680);
        assert_eq!(part(512, Some(1024)).unwrap_or_else(|_| panic!()).size_bytes(), 1024);
        for (offset, size) in [(8192, None), (0, Some(8704)), (512, Some(u64::MAX))] {
            assert!(part(offset, size).is_err(), "{offset} {size:?}");
        }
    }
}
