//! The requests of a trace in memory, packed: a study goes through them three times, and parsing
//! text is most of its time.

use super::{Op, Request};

/// Bytes at most; of a longer trace nothing is kept, and its file is read again.
const MOST: usize = 256 << 20;
/// Bytes of a block. A request takes 53 at most.
const BLOCK: usize = 1 << 20;
const LONGEST: usize = 64;

const WRITE: u8 = 1;
/// Place and length are in sectors of 512 bytes.
const SECTORS: u8 = 2;
/// Times are in microseconds.
const MICROS: u8 = 4;
const DEVICE: u8 = 8;
const RESPONSE: u8 = 16;
const SAME_BYTES: u8 = 32;

/// Requests of a trace, about nine bytes each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    blocks: Vec<Vec<u8>>,
    last: Option<Request>,
    full: bool,
}

fn put(block: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        block.push(value as u8 | 0x80);
        value >>= 7;
    }
    block.push(value as u8);
}

fn take(block: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = block[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

impl Kept {
    /// Adds a request; they come by growing arrival time.
    pub(crate) fn push(&mut self, request: &Request) {
        if self.full {
            return;
        }
        if self.blocks.last().is_none_or(|b| b.len() + LONGEST > BLOCK) {
            if (self.blocks.len() + 1) * BLOCK > MOST {
                (self.blocks, self.full) = (Vec::new(), true);
                return;
            }
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let Some(block) = self.blocks.last_mut() else { return };
        let (at, device, bytes) = self.last.map_or((0, 0, 0), |l| (l.at, l.device, l.bytes));
        let (passed, response) = (request.at - at, request.response);
        let micros = passed.is_multiple_of(1_000) && response.is_none_or(|r| r.is_multiple_of(1_000));
        let sectors = request.offset.is_multiple_of(512) && request.bytes.is_multiple_of(512);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        block.push(
            flag(request.op == Op::Write, WRITE)
                | flag(sectors, SECTORS)
                | flag(micros, MICROS)
                | flag(request.device != device, DEVICE)
                | flag(response.is_some(), RESPONSE)
                | flag(request.bytes == bytes, SAME_BYTES),
        );
        let (time, place) = (if micros { 1_000 } else { 1 }, if sectors { 512 } else { 1 });
        put(block, passed / time);
        put(block, request.offset / place);
        if request.bytes != bytes {
            put(block, request.bytes / place);
        }
        if request.device != device {
            put(block, u64::from(request.device));
        }
        if let Some(response) = response {
            put(block, response / time);
        }
        self.last = Some(*request);
    }

    /// Returns whether all requests are here.
    pub(crate) fn whole(&self) -> bool {
        !self.full
    }

    /// Gives every request.
    pub(crate) fn each(&self, mut see: impl FnMut(&Request)) {
        let mut request = Request { at: 0, device: 0, op: Op::Read, offset: 0, bytes: 0, response: None };
        for block in &self.blocks {
            let mut at = 0;
            while at < block.len() {
                let flags = block[at];
                at += 1;
                let is = |flag: u8| flags & flag != 0;
                let (time, place) = (if is(MICROS) { 1_000 } else { 1 }, if is(SECTORS) { 512 } else { 1 });
                request.op = if is(WRITE) { Op::Write } else { Op::Read };
                request.at += take(block, &mut at) * time;
                request.offset = take(block, &mut at) * place;
                if !is(SAME_BYTES) {
                    request.bytes = take(block, &mut at) * place;
                }
                if is(DEVICE) {
                    request.device = take(block, &mut at) as u32;
                }
                request.response = is(RESPONSE).then(|| take(block, &mut at) * time);
                see(&request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_come_back_as_they_went(
            list in proptest::collection::vec(
                (any::<u32>(), 0_u32..3, any::<bool>(), any::<u64>(), any::<u64>(), proptest::option::of(any::<u64>()), 0_u8..4),
                0..200,
            )
        ) {
            let mut kept = Kept::default();
            let (mut at, mut all) = (0, Vec::new());
            for (gap, device, write, offset, bytes, response, even) in list {
                let (time, place) = (if even & 1 == 0 { 1_000 } else { 1 }, if even & 2 == 0 { 512 } else { 1 });
                at += u64::from(gap) * time;
                let op = if write { Op::Write } else { Op::Read };
                let response = response.map(|r| r / time * time);
                let (offset, bytes) = (offset / place * place, bytes % 16 * place);
                let request = Request { at, device, op, offset, bytes, response };
                kept.push(&request);
                all.push(request);
            }
            let mut back = Vec::new();
            kept.each(|r| back.push(*r));
            prop_assert!(kept.whole() && back == all);
        }
    }

    #[test]
    fn a_long_trace_is_not_kept() {
        let mut kept = Kept { blocks: vec![Vec::new(); MOST / BLOCK], ..Kept::default() };
        let request = Request { at: 0, device: 0, op: Op::Read, offset: 0, bytes: 512, response: None };
        kept.blocks.last_mut().into_iter().for_each(|b| b.resize(BLOCK - 1, 0));
        kept.push(&request);
        kept.push(&request);
        assert!(!kept.whole() && kept.blocks.is_empty());
    }
}
