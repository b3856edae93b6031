//! A controller as a host sees it: its admin queue, and the data that it reports about itself.

use crate::initiator::{Cut, InitiatorError, Queue};
use crate::transport::{Plain, Transport};
use pumice_nvme::host::Options;
use pumice_nvme::pdu::Digests;
use pumice_nvme::spec::connect::{DYNAMIC, Data};
use pumice_nvme::spec::identify::{self, LEN, Namespace, cns};
use pumice_nvme::spec::property::{cc, csts, offset};
use pumice_nvme::spec::{Nqn, Sqe, opcode};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commands in flight on an admin queue.
const ADMIN_DEPTH: u16 = 16;
/// Interval between reads of CSTS.
const POLL: Duration = Duration::from_millis(10);
/// Start of the vendor-specific part of Identify Controller.
const VENDOR: usize = 3072;

/// Parameters of a connection.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// The subsystem.
    pub subsystem: Nqn,
    /// The host that connects.
    pub host: Nqn,
    /// Its id.
    pub hostid: [u8; 16],
    /// Digests asked for.
    pub digests: Digests,
    /// True if submission queue flow control is wanted.
    pub flow_control: bool,
    /// Time that anything may take.
    pub deadline: Duration,
}

/// A controller, enabled.
#[derive(Debug)]
pub struct Controller {
    address: SocketAddr,
    admin: Queue,
    identity: identify::Controller,
    vendor: Vec<u8>,
    io: IoQueues,
}

/// Connects I/O queues of a controller, without its admin queue.
#[derive(Debug, Clone)]
pub struct IoQueues {
    transport: Arc<dyn Transport>,
    address: SocketAddr,
    options: ConnectOptions,
    cut: Option<Arc<Cut>>,
    cntlid: u16,
    /// Most commands in flight on one.
    depth: u16,
    /// Bytes of data that a command may bring with it.
    capsule_data: u32,
}

impl Controller {
    /// Connects the admin queue, enables the controller, and asks who it is.
    ///
    /// # Errors
    /// If it cannot be reached, does not answer in time, or refuses.
    pub fn connect(address: SocketAddr, options: ConnectOptions) -> Result<Self, InitiatorError> {
        Self::connect_with(address, options, None)
    }

    /// The same for a controller whose queues end with all connections of `cut`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and if they are cut.
    pub fn connect_with(
        address: SocketAddr,
        options: ConnectOptions,
        cut: Option<Arc<Cut>>,
    ) -> Result<Self, InitiatorError> {
        Self::connect_over(Arc::new(Plain), address, options, cut)
    }

    /// The same over connections whose streams `transport` makes.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub fn connect_over(
        transport: Arc<dyn Transport>,
        address: SocketAddr,
        options: ConnectOptions,
        cut: Option<Arc<Cut>>,
    ) -> Result<Self, InitiatorError> {
        let data = Self::data(&options, DYNAMIC);
        let queue = Options {
            qid: 0,
            depth: ADMIN_DEPTH,
            digests: options.digests,
            flow_control: options.flow_control,
            // The connection itself says whether the host lives; between scrubs of batches nothing
            // need be said.
            kato_ms: 0,
            data,
            capsule_data: 0,
        };
        let (mut admin, cntlid) =
            Queue::connect_with(&*transport, address, queue, options.deadline, cut.as_ref())?;
        enable(&mut admin, options.deadline)?;
        let mut page = vec![0; LEN];
        let mut sqe = Sqe::new(opcode::admin::IDENTIFY, 0);
        sqe.0[40] = cns::CONTROLLER;
        let outcome = admin.execute(sqe, &[], &mut page)?;
        if !outcome.status.is_success() {
            return Err(InitiatorError::Refused { address, what: "Identify", status: outcome.status });
        }
        let identity = identify::Controller::decode(&page);
        // A queue of n + 1 entries takes n commands, and MAXCMD entries are allowed.
        let depth = identity.queue_depth.saturating_sub(1).max(1);
        let io =
            IoQueues { transport, address, options, cut, cntlid, depth, capsule_data: identity.capsule_data };
        Ok(Self { address, admin, identity, vendor: page[VENDOR..].to_vec(), io })
    }

    fn data(options: &ConnectOptions, cntlid: u16) -> Data {
        Data {
            hostid: options.hostid,
            cntlid,
            subnqn: options.subsystem.as_str().to_owned(),
            hostnqn: options.host.as_str().to_owned(),
        }
    }

    /// Its Identify Controller data.
    #[must_use]
    pub fn identity(&self) -> &identify::Controller {
        &self.identity
    }

    /// The vendor-specific part of Identify Controller.
    #[must_use]
    pub fn vendor(&self) -> &[u8] {
        &self.vendor
    }

    /// Its admin queue.
    pub fn admin(&mut self) -> &mut Queue {
        &mut self.admin
    }

    /// Sends a Keep Alive, which also shows whether the controller is alive. Whenever a quarter of
    /// the deadline has passed, `patient` decides whether to continue waiting.
    ///
    /// # Errors
    /// If it does not answer in time, or refuses.
    pub fn keep_alive(&mut self, patient: impl FnMut() -> bool) -> Result<(), InitiatorError> {
        let sqe = Sqe::new(opcode::admin::KEEP_ALIVE, 0);
        let outcome = self.admin.execute_while(sqe, &[], &mut [], patient)?;
        if outcome.status.is_success() {
            return Ok(());
        }
        Err(InitiatorError::Refused { address: self.address, what: "Keep Alive", status: outcome.status })
    }

    /// Connects I/O queue `qid` with room for `depth` commands.
    ///
    /// # Errors
    /// If the controller refuses, or does not answer in time.
    pub fn queue(&self, qid: u16, depth: u16) -> Result<Queue, InitiatorError> {
        self.io.connect(qid, depth)
    }

    /// Connects I/O queues while the admin queue is in use elsewhere.
    #[must_use]
    pub const fn io_queues(&self) -> &IoQueues {
        &self.io
    }

    /// A namespace; `None` if there is none of that number, or its blocks are of no size.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn namespace(&mut self, nsid: u32) -> Result<Option<Namespace>, InitiatorError> {
        let mut page = vec![0; LEN];
        let mut sqe = Sqe::new(opcode::admin::IDENTIFY, nsid);
        sqe.0[40] = cns::NAMESPACE;
        let outcome = self.admin.execute(sqe, &[], &mut page)?;
        Ok(Namespace::decode(&page).filter(|_| outcome.status.is_success()))
    }
}

impl IoQueues {
    /// Connects I/O queue `qid` with room for `depth` commands.
    ///
    /// # Errors
    /// If the controller refuses, or does not answer in time.
    pub fn connect(&self, qid: u16, depth: u16) -> Result<Queue, InitiatorError> {
        let queue = Options {
            qid,
            depth: depth.clamp(1, self.depth),
            digests: self.options.digests,
            flow_control: self.options.flow_control,
            kato_ms: 0,
            data: Controller::data(&self.options, self.cntlid),
            capsule_data: self.capsule_data,
        };
        let Self { transport, address, options, cut, .. } = self;
        Ok(Queue::connect_with(&**transport, *address, queue, options.deadline, cut.as_ref())?.0)
    }
}

fn property(kind: u8, offset: u32, value: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode::FABRICS, 0);
    sqe.0[4] = kind;
    sqe.set_dword(11, offset);
    sqe.set_dword(12, value);
    sqe
}

fn enable(admin: &mut Queue, deadline: Duration) -> Result<(), InitiatorError> {
    let address = admin.address();
    let mut run = |sqe, what| {
        let outcome = admin.execute(sqe, &[], &mut [])?;
        if outcome.status.is_success() {
            Ok(outcome.result as u32)
        } else {
            Err(InitiatorError::Refused { address, what, status: outcome.status })
        }
    };
    let configuration = cc::ENABLE | cc::ENTRY_SIZES_64_16;
    run(property(opcode::fabrics::PROPERTY_SET, offset::CC, configuration), "enabling the controller")?;
    let until = Instant::now() + deadline;
    loop {
        let status = run(property(opcode::fabrics::PROPERTY_GET, offset::CSTS, 0), "reading CSTS")?;
        if status & csts::READY != 0 {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(InitiatorError::Deadline { address, seconds: deadline.as_secs() });
        }
        std::thread::sleep(POLL);
    }
}
