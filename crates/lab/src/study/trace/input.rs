//! Bytes of a file, unpacked if it is packed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a file; gzip and zstd are known by their first bytes.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        // Who opens a pipe may wait for ever, and a long trace is read three times.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a pipe or socket: a trace is a file"));
    }
    let mut file = BufReader::with_capacity(1 << 18, File::open(path)?);
    let magic = file.fill_buf()?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        let plain = flate2::bufread::MultiGzDecoder::new(file);
        return Ok(Box::new(BufReader::with_capacity(1 << 18, plain)));
    }
    // Some packers begin with a frame to be skipped.
    let skipped = magic.len() >= 4 && magic[0] & 0xf0 == 0x50 && magic[1..4] == [0x2a, 0x4d, 0x18];
    if skipped || magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let plain = zstd::stream::read::Decoder::with_buffer(file)?;
        return Ok(Box::new(BufReader::with_capacity(1 << 18, plain)));
    }
    Ok(Box::new(file))
}

/// The longest line that is read.
pub(crate) const LONGEST: u64 = 64 << 10;

/// Reads a line without its end into `line`; false at the end of the file.
pub(crate) fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let got = input.take(LONGEST).read_until(b'\n', line)?;
    if got == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if got as u64 == LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a line of more than 64 KiB: this is no text",
        ));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(true)
}
