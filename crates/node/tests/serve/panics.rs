//! A node whose own code fails in the middle of a command: that command ends, and nothing else
//! does.

use crate::world::{associate, command, connect, host, read, run, serve};
use pumice_blockdev::{BlockDevice, IoError, MemoryDevice};
use pumice_node::serve::Drive;
use pumice_nvme::spec::Status;
use pumice_nvme::spec::opcode::io;
use std::sync::Arc;

/// Reads of its first block panic, and so do writes of it.
struct Panics(MemoryDevice);

impl BlockDevice for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn logical_block(&self) -> u32 {
        512
    }

    fn read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), IoError> {
        assert!(offset != 0, "as this device does");
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        assert!(offset != 0, "as this device does");
        self.0.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }
}

#[test]
fn a_command_that_panics_ends_with_internal_error() {
    let device = Arc::new(Panics(MemoryDevice::new("m", 1 << 16)));
    let server = serve(vec![Drive::with_device(device, 512, "panics").unwrap()]);
    let (controller, mut queue) = connect(&server, host(&server, 3), 8);
    // More often than there are threads.
    for _ in 0..20 {
        assert_eq!(read(&mut queue, 1, 0, 1).0, Status::INTERNAL);
        assert_eq!(run(&mut queue, command(io::WRITE, 1, 0, 1), &[1; 512]), Status::INTERNAL);
    }
    assert_eq!(run(&mut queue, command(io::WRITE, 1, 1, 1), &[1; 512]), Status::SUCCESS);
    assert_eq!(read(&mut queue, 1, 1, 1), (Status::SUCCESS, vec![1; 512]));
    drop((queue, controller));
    // No write of it is under way.
    drop(associate(server.address(), host(&server, 3)).unwrap());
}
