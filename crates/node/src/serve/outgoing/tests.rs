use super::*;
use pumice_blockdev::MemoryDevice;

/// Takes as many bytes at a time as it is told, then none.
struct Narrow {
    got: Vec<u8>,
    takes: usize,
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = std::mem::take(&mut self.takes);
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let n = n.min(all.len());
        self.got.extend_from_slice(&all[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn devices() -> Vec<Arc<dyn BlockDevice>> {
    let device = |from: u8| -> Arc<dyn BlockDevice> {
        let content = (0..200).map(|i| from.wrapping_add(i)).collect();
        Arc::new(MemoryDevice::with_content("m", content))
    };
    vec![device(0), device(100)]
}

/// However the socket takes it, it is what was to be sent; with more loans than one write has
/// pieces, from two drives, and bytes before, between and behind.
#[test]
fn every_way_of_taking_it_brings_the_same() {
    let devices = devices();
    for takes in [1, 2, 3, 7, 50, 1000, usize::MAX] {
        let mut out = Outgoing::default();
        let (mut loans, mut expected) = (Vec::new(), Vec::new());
        for i in 0..400_usize {
            if i % 10 == 0 {
                let pages = SharedBuffer::copy_of(&[i as u8; 70]);
                let at = out.bytes().len();
                out.keep(at, 70, Buffer::Pages(pages));
                out.keep(at, 3, Buffer::Bytes(vec![0xBB; 9]));
                expected.extend_from_slice(&[i as u8; 70]);
                expected.extend_from_slice(&[0xBB; 3]);
            }
            let header = [0xEE; 5];
            out.bytes().extend_from_slice(&header[..i % 6]);
            expected.extend_from_slice(&header[..i % 6]);
            let (device, offset, len) = (i % 2, (i * 3 % 100) as u64, 1 + i % 60);
            loans.push(Loan { at: out.bytes().len(), device, offset, len });
            let mut data = vec![0; len];
            devices[device].read_at(offset, &mut data).unwrap();
            expected.extend_from_slice(&data);
            if i % 10 == 9 {
                out.lend(&mut loans);
            }
        }
        out.bytes().extend_from_slice(b"end");
        expected.extend_from_slice(b"end");
        assert_eq!(out.len(), expected.len());
        let mut socket = Narrow { got: Vec::new(), takes };
        while !out.is_empty() {
            out.send(&mut socket, &devices).unwrap();
            socket.takes = takes;
        }
        assert_eq!(socket.got, expected, "{takes} at a time");
        assert_eq!((out.buffers, out.buffered, out.own()), (0, 0, 0));
        assert!(out.bytes().is_empty() && out.apart.is_empty() && out.lent == 0);
    }
}

/// A drive is held while it lends: for a piece at a time, however much waits.
#[test]
fn no_more_is_lent_at_once_than_a_writer_can_wait_for() {
    struct Largest(usize);
    impl Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let all = pieces.iter().map(|piece| piece.len()).sum();
            self.0 = self.0.max(all);
            Ok(all)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    const PIECE: usize = 256 << 10;
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", PIECE as u64));
    let mut out = Outgoing::default();
    out.lend(&mut (0..100).map(|_| Loan { at: 0, device: 0, offset: 0, len: PIECE }).collect());
    let mut socket = Largest(0);
    assert_eq!(out.send(&mut socket, &[device]).unwrap(), 100 * PIECE as u64);
    assert_eq!(socket.0, LENT_AT_ONCE);
}

/// A connection whose host takes nothing holds the buffers of its answers and next to nothing
/// else; and each of them only until it is sent.
#[test]
fn what_waits_in_buffers_takes_no_more_than_they_do() {
    const MIB: usize = 1 << 20;
    let mut out = Outgoing::default();
    for i in 0..16 {
        out.bytes().extend_from_slice(&[i; 24]);
        let at = out.bytes().len();
        out.keep(at, MIB, Buffer::Pages(SharedBuffer::copy_of(&vec![0; MIB])));
    }
    assert_eq!((out.len(), out.own()), (16 * (MIB + 24), 16 * (MIB + 24)));
    assert!(out.memory() < 16 * MIB + 4096, "{}", out.memory());
    let mut socket = Narrow { got: Vec::new(), takes: 0 };
    for left in (0..16).rev() {
        socket.takes = MIB + 24;
        out.send(&mut socket, &[]).unwrap();
        assert!(out.memory() < left * MIB + 4096, "{left} are left");
    }
    assert!(out.is_empty());
}

/// A write between two halves of a loan is not seen: a block is read from one moment.
#[test]
fn a_loan_is_never_torn() {
    let devices = devices();
    let mut out = Outgoing::default();
    out.lend(&mut vec![
        Loan { at: 0, device: 0, offset: 0, len: 100 },
        Loan { at: 0, device: 0, offset: 0, len: 100 },
    ]);
    let mut socket = Narrow { got: Vec::new(), takes: 10 };
    assert_eq!(out.send(&mut socket, &devices).unwrap(), 10);
    devices[0].write_at(0, &[9; 100]).unwrap();
    socket.takes = usize::MAX;
    out.send(&mut socket, &devices).unwrap();
    let before: Vec<u8> = (0..100).collect();
    assert_eq!(socket.got[..100], before);
    assert_eq!(socket.got[100..], [9; 100]);
}

/// However many bytes are taken at a time, and with writes between: each block comes from one
/// moment.
#[test]
fn of_a_long_loan_each_block_is_of_one_moment() {
    const LEN: usize = 64 << 10;
    for takes in [700, 4096, 5_000, 30_000] {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::with_content("m", vec![0; LEN]));
        let devices = vec![Arc::clone(&device)];
        let mut out = Outgoing::default();
        out.bytes().extend_from_slice(b"ab");
        out.lend(&mut vec![Loan { at: 1, device: 0, offset: 512, len: LEN - 1024 }]);
        let mut socket = Narrow { got: Vec::new(), takes };
        let mut moment = 0;
        while !out.is_empty() {
            out.send(&mut socket, &devices).unwrap();
            assert!(out.own() < 4096 + 2, "no more than a block is copied");
            moment += 1;
            device.write_at(0, &vec![moment; LEN]).unwrap();
            socket.takes = takes;
        }
        assert_eq!(socket.got.len(), LEN - 1024 + 2);
        assert_eq!((socket.got[0], *socket.got.last().unwrap()), (b'a', b'b'));
        let data = &socket.got[1..=LEN - 1024];
        let (first, others) = data.split_at(4096 - 512);
        assert!(first.iter().all(|byte| *byte == first[0]), "{takes}");
        for block in others.chunks(4096) {
            assert!(block.iter().all(|byte| *byte == block[0]), "{takes}");
        }
        assert!(data.is_sorted(), "later blocks from later moments");
    }
}

/// A host that always leaves something waiting: what it has got is let go all the same.
#[test]
fn what_is_kept_is_bounded_by_what_waits() {
    let devices = devices();
    let mut out = Outgoing::default();
    let mut socket = Narrow { got: Vec::new(), takes: 0 };
    let (mut expected, mut sent) = (Vec::new(), 0);
    for i in 0..200_usize {
        out.bytes().extend(std::iter::repeat_n(i as u8, 50_000));
        expected.extend(std::iter::repeat_n(i as u8, 50_000));
        if i % 3 == 0 {
            let mut loan = vec![Loan { at: out.bytes().len(), device: 1, offset: 0, len: 90 }];
            out.lend(&mut loan);
            expected.extend(100..190);
        }
        socket.takes = if i < 20 { 0 } else { 50_030 };
        sent += out.send(&mut socket, &devices).unwrap() as usize;
        assert!(!out.is_empty());
        assert!(out.bytes.len() <= 2 * out.len() + KEPT + 50_000, "{} of {}", out.bytes.len(), out.len());
    }
    assert_eq!(socket.got.len(), sent);
    while !out.is_empty() {
        socket.takes = usize::MAX;
        out.send(&mut socket, &devices).unwrap();
    }
    assert!(socket.got == expected);
}
