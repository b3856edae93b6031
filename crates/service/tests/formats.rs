//! A format of arrays is one implementation and one line: a toy beside the real ones.

use pumice_base::units::{Role, Sectors};
use pumice_blockdev::{FileDevice, OpenMode, Options};
use pumice_raid::arrangement::Arrangement;
use pumice_raid::assembly::{Member, MemberFacts, State, Stated};
use pumice_raid::format::{
    ArrayFormat, Asked, Found, FoundArray, MemberPlace, Piece, Placed, Seen, Surveyed, Unfit, choose,
};
use pumice_raid::inspect::InspectReport;
use pumice_raid::mirrors::Mirrors;
use pumice_raid::{ReadAt, Uuid};
use pumice_service::assembling::{Trouble, assemble_probed, survey};
use pumice_service::formats::FORMATS;
use pumice_service::probed::{Place, Probed};
use pumice_service::probing::recognise;
use std::path::PathBuf;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"TOYRAID1";
/// Bytes of each half of the data.
const HALF: u64 = 64 << 10;

/// Mirrors of two: a sector with magic, role and number of the array; the first half of the data
/// lies behind the second.
#[derive(Debug)]
struct Toy;

struct Label {
    array: u8,
    role: u8,
}

impl Label {
    fn uuid(&self) -> Uuid {
        Uuid([self.array; 16])
    }
}

fn name(uuid: Uuid) -> String {
    format!("toy{}", uuid.0[0])
}

impl ArrayFormat for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn structure(&self) -> &'static str {
        "toy label"
    }

    fn probe(&self, devices: &[&dyn ReadAt], _asked: Asked) -> Vec<Result<Option<Found>, String>> {
        let one = |device: &&dyn ReadAt| {
            let mut bytes = [0; 10];
            device.read_exact_at(0, &mut bytes).map_err(|error| error.to_string())?;
            match (bytes.starts_with(MAGIC), bytes[8]) {
                (false, _) => Ok(None),
                (true, role @ 0..2) => Ok(Some(Found::new(Label { role, array: bytes[9] }))),
                (true, role) => Err(format!("toy label: role is {role}; must be 0 or 1")),
            }
        };
        devices.iter().map(one).collect()
    }

    fn survey(&self, devices: &[Seen<'_>]) -> Surveyed {
        let mut out = Surveyed::default();
        for (index, device) in devices.iter().enumerate() {
            let Some(label) = device.found.get::<Label>() else { continue };
            let uuid = label.uuid();
            match out.arrays.iter_mut().find(|array| array.report.uuid == uuid) {
                Some(array) => array.devices.push(index),
                None => out.arrays.push(FoundArray { devices: vec![index], report: report(uuid) }),
            }
        }
        out
    }

    fn assemble(&self, devices: &[Seen<'_>], which: Option<&str>) -> Result<Placed, Unfit> {
        let arrays = self.survey(devices).arrays;
        let names: Vec<_> = arrays.iter().map(|a| (a.report.name.clone(), a.report.uuid)).collect();
        let array = &arrays[choose(&names, which)?];
        let mut members = vec![None, None];
        let mut places = vec![None, None];
        for device in &array.devices {
            let label: &Label = devices[*device].found.get().expect("it is of this format");
            let size = Sectors(2 * HALF / 512);
            let facts =
                MemberFacts { identity: None, number: 0, events: 1, data_offset: 0, size, valid: size };
            let role = usize::from(label.role);
            let name = devices[*device].name.to_owned();
            members[role] = Some(Member { device: name, role: Role(role as u16), facts, record: None });
            let piece = |start| Piece { device: *device, start, bytes: HALF };
            places[role] = Some(MemberPlace::Pieces(vec![piece(512 + HALF), piece(512)]));
        }
        let stated = Stated {
            uuid: array.report.uuid,
            name: array.report.name.clone(),
            format: "toy",
            events: 1,
            arrangement: arrangement(),
            state: State::Clean,
            members,
            not_named: Vec::new(),
            notes: Vec::new(),
            unclean: false,
            untracked: false,
            bitmaps: Vec::new(),
            keeps_torn_rows: false,
        };
        Ok(Placed { array: stated.into(), places, fixed: None })
    }
}

fn arrangement() -> Arrangement {
    Arrangement::Mirrors(Mirrors::raid1(2, 2 * HALF).unwrap())
}

fn report(uuid: Uuid) -> InspectReport {
    InspectReport {
        uuid,
        name: name(uuid),
        level: arrangement().level(),
        layout: None,
        metadata: "toy",
        chunk_bytes: 0,
        raid_disks: 2,
        size_bytes: 2 * HALF,
        stripes: 0,
        events: 1,
        state: State::Clean,
        members: Vec::new(),
        problems: Vec::new(),
        notes: Vec::new(),
    }
}

/// The toy is one line of this list.
fn formats() -> Vec<&'static dyn ArrayFormat> {
    FORMATS.into_iter().chain([&Toy as &'static dyn ArrayFormat]).collect()
}

struct File {
    device: Arc<FileDevice>,
    path: PathBuf,
}

fn file(folder: &std::path::Path, name: &str, role: u8, array: u8) -> File {
    let path = folder.join(name);
    let mut bytes = vec![0u8; 512 + 2 * HALF as usize];
    bytes[..8].copy_from_slice(MAGIC);
    (bytes[8], bytes[9]) = (role, array);
    for (i, byte) in bytes[512..].iter_mut().enumerate() {
        *byte = (i / 1000) as u8;
    }
    std::fs::write(&path, bytes).unwrap();
    let device = Arc::new(FileDevice::open(&path, OpenMode::ReadOnly, Options::default()).unwrap());
    File { device, path }
}

/// Bytes of a file, as formats read them.
struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let part = self.0.get(offset as usize..offset as usize + buf.len());
        buf.copy_from_slice(part.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn probed(files: &[File]) -> Vec<Result<Probed, String>> {
    let bytes: Vec<Bytes> = files.iter().map(|file| Bytes(std::fs::read(&file.path).unwrap())).collect();
    let readers: Vec<&dyn ReadAt> = bytes.iter().map(|bytes| bytes as &dyn ReadAt).collect();
    let found = recognise(&readers, Asked::default(), &formats());
    let one = |(found, file): (Result<_, String>, &File)| {
        let path = file.path.display().to_string();
        let place = Place::Here(Arc::clone(&file.device) as _);
        Ok(Probed { path, place, found: found?, holds: String::new() })
    };
    found.into_iter().zip(files).map(one).collect()
}

#[test]
fn a_format_that_is_one_line_is_found_assembled_placed_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        [file(folder.path(), "a", 1, 7), file(folder.path(), "b", 0, 7), file(folder.path(), "c", 0, 9)];
    let all: Vec<Probed> = probed(&files).into_iter().map(Result::unwrap).collect();
    let (arrays, problems) = survey(&all);
    let found: Vec<_> = arrays.iter().map(|a| (a.report.name.as_str(), a.devices.clone())).collect();
    assert_eq!((found, problems), (vec![("toy7", vec![0, 1]), ("toy9", vec![2])], vec![]));
    // A4: none of several is chosen.
    let Err(Trouble::Unfit(unfit)) = assemble_probed(&all, None) else { panic!("two arrays are one") };
    assert!(unfit.why.contains("toy7, toy9"), "{unfit}");
    let one = assemble_probed(&all, Some("toy7")).map_err(|_| "toy7 is there").unwrap();
    assert_eq!(one.array.format(), "toy");
    let paths: Vec<_> = one.sites.iter().flatten().map(|site| site.path.clone()).collect();
    assert_eq!(paths, [1, 0].map(|i: usize| files[i].path.display().to_string()), "by role");
    // The second half of the device comes first.
    let member = one.sites[0].as_ref().unwrap().place.here().unwrap();
    let mut bytes = vec![0; 2];
    member.read_at(HALF - 1, &mut bytes).unwrap();
    assert_eq!(bytes, [((2 * HALF - 1) / 1000) as u8, 0]);
    let again = one.again.unwrap();
    assert_eq!(again.read_again().unwrap(), one.array);
    // The label is gone: perhaps for a moment.
    std::fs::write(&files[0].path, vec![0u8; 512 + 2 * HALF as usize]).unwrap();
    assert!(again.read_again().unwrap_err().to_string().contains("its toy label is gone"));
}

#[test]
fn damage_goes_to_no_other_format_and_a_stranger_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let bad = [file(folder.path(), "a", 5, 7)];
    let why = probed(&bad).remove(0).err().unwrap();
    assert_eq!(why, "toy label: role is 5; must be 0 or 1");
    let mut files = vec![file(folder.path(), "b", 0, 7), file(folder.path(), "c", 1, 7)];
    let stranger = file(folder.path(), "d", 0, 7);
    std::fs::write(&stranger.path, vec![0u8; 4096]).unwrap();
    files.push(stranger);
    let all: Vec<Probed> = probed(&files).into_iter().map(Result::unwrap).collect();
    let Err(Trouble::Devices(failure)) = assemble_probed(&all, Some("toy7")) else { panic!("A3") };
    assert!(failure.to_string().contains("d: no toy label; leave it out"), "{failure}");
}
