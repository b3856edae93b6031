//! The SIMD kernels, behind one dispatcher value.
//!
//! [`Kernels`] is safe functions over slices, for one instruction set. Every set computes the same,
//! to the bit. The bodies are written once (`body`) over a small trait of registers (`vector`),
//! with one thin file for each set. The definition, a byte at a time with a table, is in `algebra`;
//! every kernel is tested against it.

#![expect(unsafe_code, reason = "SIMD instructions and raw pointers; each block has its proof")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_gfni;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod body;
mod compare;
#[cfg(target_arch = "x86_64")]
mod lines;
mod run;
#[cfg(target_arch = "x86_64")]
mod sse;
mod table;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::algebra::CHUNK;
use crate::guard::{Crc, Guard};
use crate::isa::Isa;
pub use compare::Compared;
use run::Run;
use std::sync::LazyLock;
use table::{Pair, Table};

/// Messages for CRC-32C below so many bytes go to crate `crc32c`: its one instruction needs no
/// reduction.
const SHORT: usize = 256;

/// The kernels of one instruction set.
#[derive(Clone, Copy)]
pub struct Kernels {
    isa: Isa,
    /// `None`: tables.
    table: Option<&'static Table>,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kernels").field(&self.isa).finish()
    }
}

impl Crc {
    /// Takes the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        Kernels::best().update(self, data);
    }

    /// Takes the next bytes and copies them to `out`, in one pass.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn update_copy(&mut self, data: &[u8], out: &mut [u8]) {
        Kernels::best().update_copy(self, data, out);
    }
}

/// Blocks of one length, one every so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spacing {
    /// Bytes of a block that count.
    pub len: usize,
    /// Bytes from the start of a block to the start of the next; at least `len`.
    pub pitch: usize,
}

impl Spacing {
    /// Bytes from the start of the first block to the end of the last.
    fn span(self, count: usize) -> usize {
        assert!(self.pitch >= self.len, "blocks of {} bytes every {} bytes", self.len, self.pitch);
        let gaps = count.saturating_sub(1).checked_mul(self.pitch);
        let span = gaps.and_then(|gaps| gaps.checked_add(self.len)).expect("blocks that fit into memory");
        if count == 0 { 0 } else { span }
    }
}

impl Kernels {
    /// The best kernels of this processor.
    #[must_use]
    pub fn best() -> Self {
        static BEST: LazyLock<Kernels> =
            LazyLock::new(|| *Kernels::available().last().expect("the scalar kernels run everywhere"));
        *BEST
    }

    /// The kernels of an instruction set, if this processor has it.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        if !isa.is_available() {
            return None;
        }
        let table = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Sse => Some(&sse::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(&avx2::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Gfni => Some(&avx2_gfni::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(&avx512::TABLE),
            _ => None,
        };
        Some(Self { isa, table })
    }

    /// All kernels that run here, the best last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Isa::ALL.into_iter().filter_map(Self::with_isa).collect()
    }

    /// The instruction set.
    #[must_use]
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// Takes the next bytes of a message.
    pub fn update(&self, crc: &mut Crc, data: &[u8]) {
        let register = self.message(crc.guard(), crc.register(), data);
        crc.set_register(register);
    }

    /// Takes the next bytes of a message and copies them to `out`, in one pass.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn update_copy(&self, crc: &mut Crc, data: &[u8], out: &mut [u8]) {
        let register = self.message_copy(crc.guard(), crc.register(), data, out);
        crc.set_register(register);
    }

    fn message(&self, guard: Guard, register: u64, data: &[u8]) -> u64 {
        match self.pair(guard, data.len()) {
            // SAFETY: `is_available` released the table; `data` has at least 16 bytes; nothing is
            // copied.
            Some(pair) => unsafe {
                (pair.message[0])(register, data.as_ptr(), std::ptr::null_mut(), data.len())
            },
            None => plain(guard, register, data),
        }
    }

    fn message_copy(&self, guard: Guard, register: u64, data: &[u8], out: &mut [u8]) -> u64 {
        assert_eq!(data.len(), out.len(), "bytes to copy, and room for them");
        match self.pair(guard, data.len()) {
            // SAFETY: as in `message`; `out` has as many bytes as `data` and is borrowed
            // exclusively.
            Some(pair) => unsafe { (pair.message[1])(register, data.as_ptr(), out.as_mut_ptr(), data.len()) },
            None => {
                out.copy_from_slice(data);
                plain(guard, register, data)
            }
        }
    }

    /// The guards of blocks: one for each of `guards`, the first at the start of `data`.
    ///
    /// # Panics
    /// If `data` is too short for so many blocks, or the pitch below the length.
    pub fn blocks(&self, guard: Guard, data: &[u8], blocks: Spacing, guards: &mut [u64]) {
        let count = guards.len();
        assert!(blocks.span(count) <= data.len(), "{count} blocks in {} bytes", data.len());
        if let Some(pair) = self.block_pair(guard, blocks.len) {
            let run = Run {
                src: data.as_ptr(),
                src_pitch: blocks.pitch,
                dst: std::ptr::null_mut(),
                dst_pitch: 0,
                len: blocks.len,
                count,
                start: guard.start(),
                registers: guards.as_mut_ptr(),
            };
            // SAFETY: `is_available` released the table; the span of all blocks is within `data`;
            // `guards` has one word for each; nothing is copied.
            unsafe { (pair.blocks[0])(&run) };
            guards.iter_mut().for_each(|g| *g = guard.finish(*g));
        } else {
            for (i, g) in guards.iter_mut().enumerate() {
                let block = &data[i * blocks.pitch..][..blocks.len];
                *g = guard.finish(self.message(guard, guard.start(), block));
            }
        }
    }

    /// [`blocks`](Self::blocks), and copies each block to `out`, `out_pitch` bytes apart.
    ///
    /// # Panics
    /// As `blocks`, for `data` and for `out`.
    pub fn blocks_copy(
        &self,
        guard: Guard,
        data: &[u8],
        blocks: Spacing,
        out: &mut [u8],
        out_pitch: usize,
        guards: &mut [u64],
    ) {
        let (count, copies) = (guards.len(), Spacing { len: blocks.len, pitch: out_pitch });
        assert!(blocks.span(count) <= data.len(), "{count} blocks in {} bytes", data.len());
        assert!(copies.span(count) <= out.len(), "{count} blocks into {} bytes", out.len());
        if let Some(pair) = self.block_pair(guard, blocks.len) {
            let run = Run {
                src: data.as_ptr(),
                src_pitch: blocks.pitch,
                dst: out.as_mut_ptr(),
                dst_pitch: out_pitch,
                len: blocks.len,
                count,
                start: guard.start(),
                registers: guards.as_mut_ptr(),
            };
            // SAFETY: as in `blocks`; the span of all copies is within `out`, which is borrowed
            // exclusively.
            unsafe { (pair.blocks[1])(&run) };
            guards.iter_mut().for_each(|g| *g = guard.finish(*g));
        } else {
            for (i, g) in guards.iter_mut().enumerate() {
                let block = &data[i * blocks.pitch..][..blocks.len];
                let copy = &mut out[i * out_pitch..][..blocks.len];
                *g = guard.finish(self.message_copy(guard, guard.start(), block, copy));
            }
        }
    }

    /// Compares the guards of blocks with their tuples, of the format with this guard and type 1.
    ///
    /// # Panics
    /// If there are not as many whole tuples as guards.
    #[must_use]
    pub fn compare(&self, guard: Guard, guards: &[u64], tuples: &[u8]) -> Compared {
        match self.table {
            // SAFETY: `is_available` released the table.
            Some(table) => unsafe { (table.compare)(guard, guards, tuples) },
            None => compare::compare(guard, guards, tuples),
        }
    }

    /// The kernels for a message of `len` bytes; `None` if it is too short for them.
    fn pair(&self, guard: Guard, len: usize) -> Option<&'static Pair> {
        let least = if guard == Guard::Crc32c { SHORT } else { 16 };
        self.table.filter(|_| len >= least).map(|table| &table.guards[guard as usize])
    }

    /// The kernels for blocks of `len` bytes; `None` if each must be a message of its own.
    fn block_pair(&self, guard: Guard, len: usize) -> Option<&'static Pair> {
        if len.is_multiple_of(16) && (16..=CHUNK).contains(&len) {
            self.table.map(|table| &table.guards[guard as usize])
        } else {
            None
        }
    }
}

/// Without kernels of our own.
fn plain(guard: Guard, register: u64, data: &[u8]) -> u64 {
    match guard {
        // The crate takes and gives finished values.
        Guard::Crc32c => u64::from(!crc32c::crc32c_append(!register as u32, data)),
        Guard::Crc16 | Guard::Crc64 => guard.polynomial().by_words(register, data),
    }
}
