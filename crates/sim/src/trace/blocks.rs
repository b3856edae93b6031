//! A comma-separated trace read by several threads: blocks of whole lines are parsed side by side,
//! and put together in their order.
//!
//! Whatever is out of the ordinary is left to [`TraceReader`], from the beginning: what it says of
//! a damaged trace stays what it says, to the line.

use super::csv::Columns;
use super::devices::Devices;
use super::input::LONGEST;
use super::line::{Parsed, leaps};
use super::{Format, Request, TraceReader};
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of a block: what is parsed of it stays in a core's cache.
const BLOCK: usize = 256 << 10;
/// Threads that parse, at most: who puts the blocks together takes half as long as one of them.
const PARSERS: usize = 4;
/// Blocks that wait at each place.
const WAITING: usize = 2;

/// Content of a block, in the trace's own time. Devices are numbered as they appear in the block.
struct ParsedBlock {
    requests: Vec<Request>,
    devices: Devices,
}

/// Gives every request of a comma-separated trace in a file, and then its devices; `None` where it
/// is another trace, or anything was wrong with it.
pub(crate) fn read(path: &Path, format: Option<Format>, mut see: impl FnMut(&Request)) -> Option<Devices> {
    // Nothing else can be read again from the beginning.
    if !std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return None;
    }
    let (input, columns) = TraceReader::open(path, format).ok()?.into_csv()?;
    let parsers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(PARSERS);
    std::thread::scope(|scope| {
        let (mut texts, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..parsers {
            let (text_to, text_from) = sync_channel(WAITING);
            let (part_to, part_from) = sync_channel(WAITING);
            texts.push(text_to);
            parts.push(part_from);
            let columns = &columns;
            scope.spawn(move || {
                // Nobody listens where another part was wrong.
                text_from.iter().try_for_each(|text: Vec<u8>| part_to.send(parse(columns, &text)).ok());
            });
        }
        scope.spawn(move || deal(input, &texts));
        join(&parts, &mut see)
    })
}

/// Deals blocks of whole lines to the parsers in turn. A file that cannot be read on ends with a
/// block that nobody can parse.
fn deal(mut input: impl Read, texts: &[SyncSender<Vec<u8>>]) {
    let mut rest = Vec::new();
    for to in texts.iter().cycle() {
        let mut block = Vec::with_capacity(BLOCK + rest.len());
        block.append(&mut rest);
        let got = (&mut input).take(BLOCK as u64).read_to_end(&mut block);
        let end = match got {
            Ok(0) => block.len(),
            Ok(_) => block.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1),
            Err(_) => {
                block.clear();
                block.resize(LONGEST as usize, 0);
                block.len()
            }
        };
        // A line that fills a block is no line.
        let end = if end == 0 { block.len() } else { end };
        rest.extend_from_slice(&block[end..]);
        block.truncate(end);
        let last = block.is_empty() || !matches!(got, Ok(1..));
        if (!block.is_empty() && to.send(block).is_err()) || last {
            return;
        }
    }
}

fn parse(columns: &Columns, mut text: &[u8]) -> Option<ParsedBlock> {
    let mut part = ParsedBlock { requests: Vec::with_capacity(text.len() / 32), devices: Devices::default() };
    while !text.is_empty() {
        let line = if let Some((line, length)) = columns.common(text) {
            text = &text[length..];
            line
        } else {
            let end = text.iter().position(|&b| b == b'\n');
            let (line, more) = end.map_or((text, &[][..]), |end| (&text[..end], &text[end + 1..]));
            text = more;
            if line.len() as u64 >= LONGEST {
                return None;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            match columns.parse(line).ok()? {
                Parsed::Nothing => continue,
                Parsed::Request(line) => line,
                _ => return None,
            }
        };
        line.check().ok()?;
        part.requests.push(Request {
            at: line.at,
            device: part.devices.number(line.device_field, line.device, line.alias).ok()?,
            op: line.op,
            offset: line.offset,
            bytes: line.bytes,
            response: line.response,
        });
    }
    Some(part)
}

fn join(parts: &[Receiver<Option<ParsedBlock>>], see: &mut impl FnMut(&Request)) -> Option<Devices> {
    let mut devices = Devices::default();
    let mut times = None;
    for from in parts.iter().cycle() {
        // The first who has nothing more to give is the one whose turn it is after the last block.
        let Ok(part) = from.recv() else { break };
        let part = part?;
        let mut numbers = Vec::with_capacity(part.devices.len());
        for name in part.devices.names() {
            numbers.push(devices.number("dev", name, None).ok()?);
        }
        for mut request in part.requests {
            let (first, last) = times.unwrap_or((request.at, request.at));
            if request.at < last || leaps(request.at, first, last) {
                return None;
            }
            times = Some((first, request.at));
            request.at -= first;
            request.device = numbers[request.device as usize];
            see(&request);
        }
    }
    times.map(|_| devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn by_one(path: &Path) -> Result<(Vec<Request>, Vec<String>), String> {
        let mut reader = TraceReader::open(path, None).map_err(|e| e.to_string())?;
        let mut all = Vec::new();
        while let Some(request) = reader.next_request().map_err(|e| e.to_string())? {
            all.push(request);
        }
        Ok((all, (0..reader.devices().len()).map(|i| reader.devices().name(i as u32)).collect()))
    }

    fn by_many(path: &Path) -> Option<(Vec<Request>, Vec<String>)> {
        let mut all = Vec::new();
        let devices = read(path, None, |r| all.push(*r))?;
        Some((all, (0..devices.len()).map(|i| devices.name(i as u32)).collect()))
    }

    /// Four blocks of lines of every kind that is allowed.
    fn lines() -> String {
        let mut text = String::from("ts_us,dev,op,offset_bytes,size_bytes,svc_stop_us,comment\n");
        for i in 0..40_000_u64 {
            let (op, end) =
                ([" R", "w", "Write", "0x28"][i as usize % 4], ["\n", "\r\n", "\n\n"][i as usize % 3]);
            let device = ["sda", "sdb ", "d", " sdc"][(i / 7_000) as usize % 4];
            text += &format!("{},{device},{op},{},{},{}, x{end}", 5 + i / 3, i * 512, i % 9 * 512, i % 11);
        }
        text
    }

    #[test]
    fn threads_read_what_one_reads() -> Result<(), Box<dyn std::error::Error>> {
        let text = lines();
        let cases = [
            text.clone(),
            text.trim_end().to_owned(),
            text.replace(',', " ,\t"),
            text.replace("svc_stop_us,comment", "other,svc_stop_us"),
            "ts_ns,op,lpn\n7,R,1\n7,T,1\n9,W,2251799813685247\n".to_owned(),
            "op,ts_s,lbn512,size_bytes,dev\nR,1.5,3,4096,x\nR,2,3,1,x".to_owned(),
            "op,ts_us,lbn512,size_bytes,dev\nR,1,3,4096,x\nR,00000000000000000002,3,1,x\n".to_owned(),
            format!("ts_us,op,lbn512,size_bytes,z\n1,R,1,1,{}\n", "z".repeat(65_527)),
        ];
        for (i, text) in cases.iter().enumerate() {
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(text.as_bytes())?;
            let one = by_one(file.path());
            assert!(one.is_ok() || i == 3, "{i}: {:?}", one.err());
            assert_eq!(one.ok(), by_many(file.path()), "{i}");
        }
        Ok(())
    }

    #[test]
    fn damage_is_seen_by_threads_where_one_sees_it() -> Result<(), Box<dyn std::error::Error>> {
        const BYTES: &[u8] = b"0123456789,\n\r \tRrWwTI.-x\x1b\0\xc3";
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut refused = 0;
        for round in 0..3_000 {
            let [time, place] =
                [["ts_us", "ts_ns", "ts_ms", "ts_s"], ["offset_bytes", "lbn512", "lpn", "lbn512"]]
                    .map(|names| names[random(4)]);
            let mut text = format!("{time},dev,op,{place},size_bytes,svc_stop_us\n");
            for i in 0..6 {
                text += &format!("{},sd{},{},{},512,70\n", i * 90, i % 2, ["R", "W"][i % 2], i * 8);
            }
            let (mut text, header) = (text.clone().into_bytes(), text.find('\n').unwrap_or(0) + 1);
            for _ in 0..=random(3) {
                let (at, byte) = (header + random(text.len() - header), BYTES[random(BYTES.len())]);
                match random(3) {
                    0 => text[at] = byte,
                    1 => text.insert(at, byte),
                    _ => drop(text.splice(at..at, std::iter::repeat_n(byte, 20))),
                }
            }
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(&text)?;
            let one = by_one(file.path());
            refused += u32::from(one.is_err());
            let text = String::from_utf8_lossy(&text);
            assert_eq!(
                one.as_ref().ok(),
                by_many(file.path()).as_ref(),
                "{round}: {:?}\n{text}",
                one.as_ref().err()
            );
        }
        assert!((500..2_900).contains(&refused), "{refused}");
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_left_to_the_reader() -> Result<(), Box<dyn std::error::Error>> {
        let text = lines();
        let middle = text.len() / 2 + text[text.len() / 2..].find('\n').unwrap_or(0) + 1;
        for wrong in [
            "1,sda,R,512,512,1,\n",
            "99999,sda,R,512,-512,1,\n",
            "99999,sda,X,512,512,1,\n",
            "99999,sda,Wrtie,512,512,1,\n",
            "99999,sda,Rubbish,512,512,1,\n",
            "99999,sda,R,9223372036854775808,512,1,\n",
            "99999,sda,R,9223372036854775807,512,1,\n",
            "99999,sda,R,512,512,86400000001,\n",
            "3000000000000,sda,R,512,512,1,\n",
            "99999,s\u{1b}da,R,512,512,1,\n",
            &format!("99999,{},R,512,512,1,\n", "z".repeat(256)),
            "99999,sda,R\n",
            "99999,,R,512,512,1,\n",
            "99999,sda,R,512,4294967297,1,\n",
            "99999999999999999999,sda,R,512,512,1,\n",
            "9999999999999999999,sda,R,512,512,1,\n",
            &format!("99999,sda,R,512,512,1,{}\n", "z".repeat(70_000)),
            &format!("99999,sda,R,512,512,1,{}\n", "z".repeat(600_000)),
        ] {
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(format!("{}{wrong}{}", &text[..middle], &text[middle..]).as_bytes())?;
            assert!(by_one(file.path()).is_err() && by_many(file.path()).is_none(), "{wrong:.80}");
        }
        // What shows only in many lines, and far beyond one block.
        let years = |i: u64| format!("{},d,R,0,512,5,{}\n", i * 2_500_000_000_000, "z".repeat(8_000));
        let names = |i: u64| format!("{i},{},R,0,512,5,\n", i % 70_000);
        for lines in [(0..150).map(years).collect::<String>(), (0..80_000).map(names).collect()] {
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(&text.as_bytes()[..=text.find('\n').unwrap_or(0)])?;
            file.write_all(lines.as_bytes())?;
            assert!(by_one(file.path()).is_err() && by_many(file.path()).is_none(), "{lines:.80}");
        }
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(b"ts_us,op,lbn512,size_bytes\n\n")?;
        assert!(by_many(file.path()).is_none() && by_many(Path::new("/dev/null")).is_none());
        Ok(())
    }
}
