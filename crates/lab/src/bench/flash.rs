//! `pumice-lab bench flash`: flash drives against plain ones, in files or in memory.

use clap::Args;
use pumice::bench::median;
use pumice::leaving::{self, Registered};
use pumice::text::{print, print_json, table};
use pumice_base::buffer::AlignedBuffer;
use pumice_base::units::parse_size;
use pumice_blockdev::{BlockDevice, FileDevice, IoError, MemoryDevice, OpenMode, Options};
use pumice_flash::chip::Random;
use pumice_flash::device::{FlashDrive, FlashSpec, Layout};
use pumice_flash::ftl::{Fingerprint, Scheme};
use pumice_service::failure::Failure;
use serde::Serialize;
use std::fs::{File, remove_file};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a page of a flash drive.
const PAGE: usize = 4096;
/// Bytes of a command when a drive is filled, and of sequential writes.
const LONG: usize = 128 << 10;
/// Random writes between two flushes.
const FLUSH_EVERY: u64 = 32;
/// The first seed of contents that fill drives.
const FILL: u64 = 100;
/// Number of random overwrites of the full drive before anything is measured.
const OVERWRITES: u64 = 3;

/// Measures a flash drive in a file beside a plain file in the same folder, in alternating pairs.
/// All pages that are written differ, and all places of both files have been written before. With
/// `--memory` both are in memory: what a flash drive costs without a file system below it.
#[derive(Debug, Args)]
pub(crate) struct FlashArgs {
    /// The folder for the two files; they are removed afterwards
    #[arg(value_name = "FOLDER", required_unless_present = "memory")]
    folder: Option<PathBuf>,
    /// Keep both drives in the memory of this process, and no files. Takes a little more memory
    /// than twice the capacity
    #[arg(long, conflicts_with = "folder")]
    memory: bool,
    /// Capacity of each drive
    #[arg(long, default_value = "1GiB", value_parser = |text: &str| parse_size(text).map_err(|e| e.to_string()))]
    capacity: u64,
    /// Physical pages beyond the logical ones, in percent
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(0..=1000))]
    op: u32,
    /// The deduplication of the flash drive
    #[arg(long, default_value = "none")]
    dedup: Scheme,
    /// Fill the drives, and overwrite the flash drive at random until garbage collection is in its
    /// steady state. Otherwise half of each drive is filled and used
    #[arg(long)]
    full: bool,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Pairs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Only this case, from 1 in the order of the table; all without it
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=CASES.len() as u64))]
    case: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    capacity_bytes: u64,
    /// Both drives are in memory.
    memory: bool,
    op_percent: u32,
    dedup: String,
    full: bool,
    /// One thread that takes the fingerprints of pages, one after another; for schemes that look
    /// every write up.
    hash_bytes_per_s: Option<f64>,
    /// The same of 32 pages side by side, as a long write does.
    hash_many_bytes_per_s: Option<f64>,
    cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
struct Case {
    io: &'static str,
    block_bytes: usize,
    queue_depth: usize,
    plain_per_s: f64,
    flash_per_s: f64,
    /// Median of the pairs' own ratios.
    ratio_to_plain: f64,
    /// The flash drive's bytes a second, of those of one thread that takes the fingerprints of
    /// pages, one after another: median of pairs. Of sequential writes whose scheme looks every
    /// write up.
    ratio_to_hash: Option<f64>,
    /// Time in flushes, of all time of all threads, on the plain file.
    plain_flush_share: f64,
    /// The same on the flash drive.
    flash_flush_share: f64,
    /// Of the flash drive during this case; none if it only reads.
    write_amplification: Option<f64>,
}

struct Shape {
    io: &'static str,
    writes: bool,
    random: bool,
    bytes: usize,
    depth: usize,
}

const fn shape(io: &'static str, writes: bool, random: bool, bytes: usize, depth: usize) -> Shape {
    Shape { io, writes, random, bytes, depth }
}

const CASES: [Shape; 6] = [
    shape("sequential write", true, false, LONG, 1),
    shape("sequential write", true, false, LONG, 8),
    shape("random write", true, true, PAGE, 1),
    shape("random write", true, true, PAGE, 32),
    shape("random read", false, true, PAGE, 1),
    shape("random read", false, true, PAGE, 32),
];

/// Commands a second, and the part of the time that went into flushes.
struct Load {
    per_s: f64,
    flush_share: f64,
}

/// The column that only a scheme has that hashes every write.
const OF_THE_HASH: usize = 6;

/// Removes a file at the end, however that comes.
struct Remove {
    path: PathBuf,
    _registered: Registered,
}

impl Remove {
    fn new(path: PathBuf) -> Self {
        let registered = leaving::file(&path);
        Self { path, _registered: registered }
    }
}

impl Drop for Remove {
    fn drop(&mut self) {
        // It may be gone already; there is nobody to tell.
        let _ = remove_file(&self.path);
    }
}

/// Runs the command.
pub(crate) fn run(args: &FlashArgs) -> Result<ExitCode, Failure> {
    if !(0.05..=600.0).contains(&args.seconds) {
        return Err(Failure::new(format!("--seconds is {}: it must be from 0.05 to 600", args.seconds)));
    }
    if args.capacity < 64 << 20 || !args.capacity.is_multiple_of(2 * LONG as u64) {
        let why = "it must be a multiple of 256 KiB, and at least 64 MiB";
        return Err(Failure::new(format!("--capacity is {}: {why}", args.capacity)));
    }
    // Before anything is made: so large a drive has no file, and no sums that fit 64 bits.
    Layout::of_drive(args.capacity, args.op * 100)
        .map_err(|_| Failure::new(format!("--capacity is {}: it is too large for a drive", args.capacity)))?;
    let span = if args.full { args.capacity } else { args.capacity / 2 };
    let drives = drives(args)?;
    let (plain, flash) = (&*drives.plain, &drives.flash);
    fill(plain, span, FILL)?;
    // On both, every place that is written from now on was written before: the first write to a
    // place costs a file system more. A flash drive writes to all of its room in turn.
    let room = args.capacity / 100 * u64::from(args.op + 100) + args.capacity / 8;
    for pass in 0..room.div_ceil(span) {
        fill(flash, span, FILL + pass)?;
    }
    if args.full {
        overwrite(flash, span)?;
    }
    let hashes = args.looks_up().then(|| {
        let pages = Pages::default();
        (rate(args.seconds, || pages.one_by_one()), rate(args.seconds, || pages.side_by_side()))
    });
    let chosen = (0..).zip(&CASES).filter(|(case, _)| args.case.is_none_or(|only| only == case + 1));
    let cases = chosen.map(|(case, shape)| measure(args, plain, flash, span, (case, shape)));
    let document = Document {
        capacity_bytes: args.capacity,
        memory: args.memory,
        op_percent: args.op,
        dedup: args.dedup.to_string(),
        full: args.full,
        hash_bytes_per_s: hashes.map(|(one, _)| one),
        hash_many_bytes_per_s: hashes.map(|(_, many)| many),
        cases: cases.collect::<Result<_, _>>()?,
    };
    if args.json {
        print_json(&document);
    } else {
        print(&human(&document));
    }
    Ok(ExitCode::SUCCESS)
}

impl FlashArgs {
    /// Returns whether the scheme looks every write up, and so takes its fingerprint first.
    fn looks_up(&self) -> bool {
        self.dedup == Scheme::Inline
    }
}

/// Drives under measurement. The files go last.
struct Drives {
    plain: Box<dyn BlockDevice>,
    flash: FlashDrive,
    _files: Option<[Remove; 2]>,
}

fn drives(args: &FlashArgs) -> Result<Drives, Failure> {
    let spec = |path| FlashSpec {
        path,
        capacity: Some(args.capacity),
        op: Some(args.op * 100),
        dedup: Some(args.dedup),
    };
    let Some(folder) = args.folder.as_deref() else {
        let plain = MemoryDevice::try_new("plain", args.capacity);
        let plain = Box::new(plain.map_err(|error| Failure::new(format!("--capacity: {error}")))?);
        let flash = pumice_flash::device::in_memory(&spec("flash".into()))?;
        return Ok(Drives { plain, flash, _files: None });
    };
    let name = |what: &str| folder.join(format!("pumice-bench-{}-{what}", std::process::id()));
    let files = ["plain", "flash"].map(|what| Remove::new(name(what)));
    let plain = Box::new(plain_file(&files[0].path, args.capacity)?);
    let (flash, _) = pumice_flash::device::open(&spec(files[1].path.clone()), "bench")?;
    Ok(Drives { plain, flash, _files: Some(files) })
}

fn plain_file(path: &Path, bytes: u64) -> Result<FileDevice, Failure> {
    let made = File::create_new(path).and_then(|file| file.set_len(bytes));
    made.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let device = FileDevice::open(path, OpenMode::ReadWrite, Options::default())?;
    // Its room is allocated, as that of a flash drive is.
    device.zero(0, bytes)?;
    device.flush()?;
    Ok(device)
}

/// Bytes of which each page differs from all others.
struct Content {
    data: AlignedBuffer,
    bytes: usize,
    random: Random,
}

impl Content {
    fn new(bytes: usize, seed: u64) -> Self {
        let (mut data, mut random) = (AlignedBuffer::new(bytes), Random::new(seed));
        for word in data[..bytes].chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Self { data, bytes, random }
    }

    fn next(&mut self) -> &[u8] {
        for page in self.data[..self.bytes].chunks_exact_mut(PAGE) {
            page[..8].copy_from_slice(&self.random.next_u64().to_le_bytes());
        }
        self.bytes()
    }

    fn bytes(&self) -> &[u8] {
        &self.data[..self.bytes]
    }
}

fn fill(device: &dyn BlockDevice, span: u64, seed: u64) -> Result<(), IoError> {
    let mut content = Content::new(LONG, seed);
    for at in (0..span).step_by(LONG) {
        device.write_at(at, content.next())?;
    }
    device.flush()
}

fn overwrite(device: &dyn BlockDevice, span: u64) -> Result<(), IoError> {
    let (mut content, mut random) = (Content::new(PAGE, 2), Random::new(3));
    let pages = span / PAGE as u64;
    for _ in 0..OVERWRITES * pages {
        device.write_at(random.below(pages) * PAGE as u64, content.next())?;
    }
    device.flush()
}

/// The pages of a long write, for their fingerprints.
struct Pages(Content);

impl Default for Pages {
    fn default() -> Self {
        Self(Content::new(LONG, 4))
    }
}

impl Pages {
    fn one_by_one(&self) {
        for page in self.0.bytes().chunks_exact(PAGE) {
            std::hint::black_box(Fingerprint::Blake3.key(page));
        }
    }

    fn side_by_side(&self) {
        std::hint::black_box(Fingerprint::Blake3.keys(self.0.bytes(), PAGE));
    }
}

/// Bytes a second, if each call is for a long write.
fn rate(seconds: f64, hash: impl Fn()) -> f64 {
    let (began, mut rounds) = (Instant::now(), 0_u32);
    while rounds == 0 || began.elapsed().as_secs_f64() < seconds {
        hash();
        rounds += 1;
    }
    f64::from(rounds) * LONG as f64 / began.elapsed().as_secs_f64()
}

fn measure(
    args: &FlashArgs,
    plain: &dyn BlockDevice,
    flash: &FlashDrive,
    span: u64,
    (case, shape): (u64, &Shape),
) -> Result<Case, Failure> {
    let (mut plains, mut flashes, mut to_hash) = (Vec::new(), Vec::new(), Vec::new());
    let pages = (args.looks_up() && shape.writes && !shape.random).then(Pages::default);
    let before = flash.stats();
    for round in 0..args.rounds {
        // Contents that came back would be duplicates.
        let seed = case << 16 | u64::from(round);
        plains.push(load(plain, shape, span, args.seconds, seed)?);
        let load = load(flash, shape, span, args.seconds, seed)?;
        if let Some(pages) = &pages {
            let hash = rate(args.seconds, || pages.one_by_one());
            to_hash.push(load.per_s * shape.bytes as f64 / hash);
        }
        flashes.push(load);
    }
    let after = flash.stats();
    let (written, programmed) = (
        after.host_writes - before.host_writes,
        after.host_programs + after.copies - before.host_programs - before.copies,
    );
    let ratios = flashes.iter().zip(&plains).map(|(flash, plain)| flash.per_s / plain.per_s);
    let of = |loads: &[Load], value: fn(&Load) -> f64| median(loads.iter().map(value).collect());
    Ok(Case {
        io: shape.io,
        block_bytes: shape.bytes,
        queue_depth: shape.depth,
        plain_per_s: of(&plains, |load| load.per_s),
        flash_per_s: of(&flashes, |load| load.per_s),
        ratio_to_plain: median(ratios.collect()),
        ratio_to_hash: pages.map(|_| median(to_hash)),
        plain_flush_share: of(&plains, |load| load.flush_share),
        flash_flush_share: of(&flashes, |load| load.flush_share),
        write_amplification: (written > 0).then(|| programmed as f64 / written as f64),
    })
}

/// Loads a drive with as many threads as commands are to be in flight.
fn load(
    device: &dyn BlockDevice,
    shape: &Shape,
    span: u64,
    seconds: f64,
    seed: u64,
) -> Result<Load, Failure> {
    let (begun, flushing) = (AtomicU64::new(0), AtomicU64::new(0));
    let places = span / shape.bytes as u64;
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let one = |thread: u64| -> Result<u64, IoError> {
        let mut random = Random::new(seed << 32 | thread << 8);
        let mut content = Content::new(shape.bytes, random.next_u64());
        let mut buffer = AlignedBuffer::new(shape.bytes);
        let mut done = 0;
        // A busy machine may begin a thread late: one command at least, or there is no rate.
        while done == 0 || Instant::now() < end {
            // Relaxed: it only hands out numbers.
            let number = begun.fetch_add(1, Ordering::Relaxed);
            let place = if shape.random { random.below(places) } else { number % places };
            let at = place * shape.bytes as u64;
            if shape.writes {
                device.write_at(at, content.next())?;
            } else {
                device.read_at(at, &mut buffer[..shape.bytes])?;
            }
            if shape.writes && shape.random && number % FLUSH_EVERY == FLUSH_EVERY - 1 {
                let from = Instant::now();
                device.flush()?;
                flushing.fetch_add(from.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
            done += 1;
        }
        Ok(done)
    };
    let done: Result<Vec<u64>, IoError> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..shape.depth as u64).map(|n| scope.spawn(move || one(n))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let done: u64 = done?.iter().sum();
    if shape.writes {
        device.flush()?;
    }
    let took = began.elapsed().as_secs_f64();
    let flushed = flushing.into_inner() as f64 * 1e-9;
    Ok(Load { per_s: done as f64 / took, flush_share: flushed / took / shape.depth as f64 })
}

fn human(document: &Document) -> String {
    let heading = [
        "",
        "bytes",
        "depth",
        "plain/s",
        "flash/s",
        "flash is",
        "of the hash",
        "in flushes: plain",
        "flash",
        "write amplification",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let hashes = document.hash_bytes_per_s.is_some();
    for case in &document.cases {
        let writes = case.write_amplification.is_some();
        let share = |share: f64| if writes { format!("{:.0} %", share * 100.0) } else { String::new() };
        rows.push(vec![
            case.io.to_owned(),
            case.block_bytes.to_string(),
            case.queue_depth.to_string(),
            format!("{:.0}", case.plain_per_s),
            format!("{:.0}", case.flash_per_s),
            format!("{:.2} x", case.ratio_to_plain),
            case.ratio_to_hash.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            share(case.plain_flush_share),
            share(case.flash_flush_share),
            case.write_amplification.map_or_else(String::new, |value| format!("{value:.2}")),
        ]);
    }
    let hash = match (document.hash_bytes_per_s, document.hash_many_bytes_per_s) {
        (Some(one), Some(many)) => {
            let (one, many) = (one / 1e9, many / 1e9);
            format!("Fingerprints alone: {one:.2} GB/s page by page, {many:.2} GB/s side by side\n")
        }
        _ => String::new(),
    };
    if !hashes {
        rows.iter_mut().for_each(|row| drop(row.remove(OF_THE_HASH)));
    }
    format!("{}{hash}", table(&rows))
}
