//! Statuses of commands.

use std::fmt;

/// A status: SCT in bits 8 to 10, SC in bits 0 to 7, and DNR in bit 14, as the completion's status
/// word has them, shifted right by one (the phase bit, 0 on fabrics). (NVMe Base, completion queue
/// entry.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $words:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The status in words; empty if it has none here.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self.code() {
                    $($value => $words,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    /// Done.
    SUCCESS = 0x000, "successful";
    /// The opcode is not known here.
    INVALID_OPCODE = 0x001, "invalid opcode";
    /// A field of the command makes no sense.
    INVALID_FIELD = 0x002, "invalid field";
    /// The data did not come or go whole.
    DATA_TRANSFER_ERROR = 0x004, "data transfer error";
    /// The controller failed.
    INTERNAL = 0x006, "internal error";
    /// Aborted by an Abort command.
    ABORTED = 0x007, "aborted by request";
    /// The namespace does not exist.
    INVALID_NAMESPACE = 0x00B, "invalid namespace";
    /// A command that may not come now.
    SEQUENCE = 0x00C, "command sequence error";
    /// The length of the SGL does not fit the command.
    SGL_LENGTH = 0x00F, "data SGL length invalid";
    /// The kind of SGL is not supported.
    SGL_TYPE = 0x011, "SGL descriptor type invalid";
    /// An admin command: the host may not do that.
    OPERATION_DENIED = 0x015, "operation denied";
    /// The namespace may not be written.
    WRITE_PROTECTED = 0x020, "namespace is write protected";
    /// The transport damaged the data; trying again is right.
    TRANSIENT_TRANSPORT = 0x022, "transient transport error";
    /// Past the end of the namespace.
    LBA_RANGE = 0x080, "LBA out of range";
    /// The command would take more than there is room for.
    CAPACITY = 0x081, "capacity exceeded";
    /// No such queue.
    INVALID_QUEUE = 0x101, "invalid queue identifier";
    /// More AER commands than allowed.
    AER_LIMIT = 0x105, "asynchronous event request limit exceeded";
    /// The log page is not known here.
    INVALID_LOG = 0x109, "invalid log page";
    /// The feature cannot be saved.
    NOT_SAVEABLE = 0x10D, "feature identifier not saveable";
    /// The feature cannot be changed.
    NOT_CHANGEABLE = 0x10E, "feature not changeable";
    /// The feature is of the controller, not of one namespace.
    NOT_OF_NAMESPACE = 0x10F, "feature not namespace specific";
    /// There is no such combination of command sets.
    COMMAND_SETS_REJECTED = 0x12B, "combination of command sets rejected";
    /// Connect: the record format is not 0.
    CONNECT_FORMAT = 0x180, "incompatible format";
    /// Connect: no room.
    CONNECT_BUSY = 0x181, "controller busy, or invalid protection information";
    /// Connect: a parameter; dw0 says which.
    CONNECT_INVALID = 0x182, "connect invalid parameters";
    /// Connect: this host may not use the controller.
    CONNECT_HOST = 0x184, "connect invalid host";
    /// Disconnect on the admin queue.
    INVALID_QUEUE_TYPE = 0x185, "invalid queue type";
    /// The queue takes nothing but authentication.
    AUTHENTICATION_REQUIRED = 0x191, "authentication required";
    /// The medium did not take the data.
    WRITE_FAULT = 0x280, "write fault";
    /// The medium does not give the data back.
    READ_ERROR = 0x281, "unrecovered read error";
    /// The guard does not match the block.
    GUARD_CHECK = 0x282, "end-to-end guard check error";
    /// The application tag differs from that of the command.
    APPLICATION_TAG_CHECK = 0x283, "end-to-end application tag check error";
    /// The reference tag differs from that of the command.
    REFERENCE_TAG_CHECK = 0x284, "end-to-end reference tag check error";
    /// Compare: the data differ.
    COMPARE_FAILURE = 0x285, "compare failure";
    /// The host may not do that.
    ACCESS_DENIED = 0x286, "access denied";
    /// The storage tag differs from that of the command.
    STORAGE_TAG_CHECK = 0x288, "end-to-end storage tag check error";
    /// The path failed; a host's own books.
    HOST_PATH = 0x370, "host path error";
}

impl Status {
    /// For I/O commands: the initial reference tag is not that of the first block. Connect uses the
    /// same number for [`CONNECT_BUSY`](Self::CONNECT_BUSY).
    pub const INVALID_PROTECTION: Self = Self(0x181);

    /// Do not retry: the same command would end the same way.
    const DNR: u16 = 1 << 14;

    /// The same, and not to be tried again.
    #[must_use]
    pub const fn dnr(self) -> Self {
        Self(self.0 | Self::DNR)
    }

    /// Status code type and status code alone.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0 & 0x7FF
    }

    /// Returns whether the command was carried out.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.code() == 0
    }

    /// Returns whether the same command may be tried again.
    #[must_use]
    pub const fn may_retry(self) -> bool {
        self.0 & Self::DNR == 0
    }

    /// The status word of a completion.
    #[must_use]
    pub const fn word(self) -> u16 {
        self.0 << 1
    }

    /// The status of a completion's status word.
    #[must_use]
    pub const fn of_word(word: u16) -> Self {
        Self(word >> 1)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            "" => write!(f, "status {:#05x}", self.code()),
            words => write!(f, "{words} ({:#05x})", self.code()),
        }
    }
}
