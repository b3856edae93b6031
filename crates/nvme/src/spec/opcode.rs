//! Opcodes. Bits 0 and 1 say which way data go: 00 none, 01 to the controller, 10 to the host.
//! (NVMe Base, command sets.)

/// Fabrics commands, on any queue; their type is in byte 4.
pub const FABRICS: u8 = 0x7F;

/// Types of Fabrics commands.
pub mod fabrics {
    /// Set a property.
    pub const PROPERTY_SET: u8 = 0x00;
    /// Bind a queue to a controller.
    pub const CONNECT: u8 = 0x01;
    /// Read a property.
    pub const PROPERTY_GET: u8 = 0x04;
    /// A message of the host's authentication.
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// A message of the controller's.
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    /// End an I/O queue.
    pub const DISCONNECT: u8 = 0x08;
}

/// Admin commands.
pub mod admin {
    /// Read a log page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Read what a controller or namespace is.
    pub const IDENTIFY: u8 = 0x06;
    /// Ask for another command to be given up.
    pub const ABORT: u8 = 0x08;
    /// Set a feature.
    pub const SET_FEATURES: u8 = 0x09;
    /// Read a feature.
    pub const GET_FEATURES: u8 = 0x0A;
    /// Wait for an event.
    pub const ASYNC_EVENT: u8 = 0x0C;
    /// The host lives.
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// I/O commands of the NVM command set.
pub mod io {
    /// Make durable.
    pub const FLUSH: u8 = 0x00;
    /// Write blocks.
    pub const WRITE: u8 = 0x01;
    /// Read blocks.
    pub const READ: u8 = 0x02;
    /// Make blocks unreadable until they are written.
    pub const WRITE_UNCORRECTABLE: u8 = 0x04;
    /// Compare blocks with data.
    pub const COMPARE: u8 = 0x05;
    /// Write zeros.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Hints, of which deallocation is one.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// Read without transferring.
    pub const VERIFY: u8 = 0x0C;
}
