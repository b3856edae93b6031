//! A block device as a medium for records and logs.

use crate::BlockDevice;
use pumice_base::durable::Medium;
use std::any::Any;
use std::io;
use std::sync::Arc;

/// A block device as a medium. A bad sector is told from a device that is gone: its error is EIO.
#[derive(Clone)]
pub struct DeviceMedium(pub Arc<dyn BlockDevice>);

impl Medium for DeviceMedium {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buf).map_err(crate::IoError::into_io)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data).map_err(crate::IoError::into_io)
    }

    fn write_soon(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_soon(offset, data).map_err(crate::IoError::into_io)
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.0.read_cached(offset, buf)
    }

    fn write_back(&self, offset: u64, len: u64, wait: bool) -> io::Result<()> {
        self.0.write_back(offset, len, wait).map_err(crate::IoError::into_io)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.flush().map_err(crate::IoError::into_io)
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.0.size_bytes())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
