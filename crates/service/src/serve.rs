//! A volume in service: exported over NVMe/TCP, with its control socket.

use crate::api::{Event, STOP_TIME, Served};
use crate::failure::Failure;
use crate::open::{OpenSpec, OpenVolume, open_volume};
use crate::orders::Orders;
use crate::scrubs::{Forms, Scrubs};
use crate::socket::{Socket, SocketPlace};
use crate::status::document;
use crate::stopping::{Ended, Stopper, Stops};
use pumice_executor::{ControlError, ServedVolume};
use pumice_node::NodeOptions;
use pumice_node::serve::{Drive, HostFaces, Server, Service, can_listen};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::Nqn;
use pumice_offload::PaceRequest;
use pumice_remote::initiator::BusyPoll;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time that the volume has to tell its state before it is stopped.
const LAST_STATUS: Duration = Duration::from_secs(1);
/// Local memory for the volume's own namespace: parity commands go to the members instead.
const MEMORY: u64 = 1 << 20;

/// A volume that is to be served.
#[derive(Debug, Clone)]
pub struct ServeSpec {
    /// Its devices, and how they are opened.
    pub open: OpenSpec,
    /// Addresses to listen on; port 0 is a free one.
    pub listen: Vec<SocketAddr>,
    /// Name of the subsystem; `None` for one made of the array's UUID.
    pub nqn: Option<Nqn>,
    /// Folder of its control socket.
    pub folder: PathBuf,
    /// Forms of reports of scrubs.
    pub forms: Forms,
}

/// A volume in service. It is served until it is [waited for](Self::wait) and ends.
pub struct Serving {
    volume: ServedVolume,
    server: Server,
    /// The place of the socket.
    socket: SocketPlace,
    scrubs: Arc<Scrubs>,
    stops: Stops,
}

/// Opens a volume and serves it. `log` is told what an operator has to know. `stop` and `stops` are
/// the two ends of [`stopper`](crate::stopping::stopper).
///
/// # Errors
/// If it cannot be opened or served. If a device or an address is refused, nothing was written.
pub fn serve(
    spec: &ServeSpec,
    (stop, stops): (&Stopper, Stops),
    log: &dyn Fn(&Event),
) -> Result<Serving, Failure> {
    // Opening writes to the members: what can be refused is refused before.
    can_listen(&spec.listen)?;
    Socket::check(&spec.folder)?;
    let OpenVolume { volume, devices } = open_volume(&spec.open)?;
    let parts = (|| {
        let socket = Socket::make(&spec.folder, &volume.facts().uuid.to_string())?;
        let server = export(spec, &volume)?;
        let served = Served {
            addresses: server.addresses().iter().map(ToString::to_string).collect(),
            nqn: server.nqn().to_string(),
            pid: std::process::id(),
        };
        document(&volume.status()?, None).recovered.events().iter().for_each(log);
        let scrubs = Arc::new(Scrubs::new(spec.forms));
        let orders = Orders {
            control: volume.control(),
            served,
            devices: Mutex::new(devices),
            scrubs: Arc::clone(&scrubs),
            stop: stop.clone(),
        };
        let place = socket.place().clone();
        std::thread::Builder::new()
            .name("socket".to_owned())
            .spawn(move || socket.serve(move |request, reply| orders.answer(request, reply)))?;
        let failed = stop.clone();
        server.on_failure(move |why| {
            // It may have ended already.
            failed.end(Ended::Failed(why));
        });
        Ok((server, place, scrubs))
    })();
    match parts {
        Ok((server, socket, scrubs)) => Ok(Serving { volume, server, socket, scrubs, stops }),
        Err(failure) => {
            // It was not served, so nobody wrote to it: it is left as it was found, but clean.
            if !volume.stop(STOP_TIME) {
                log(&Event::NotClean { why: None });
            }
            Err(failure)
        }
    }
}

/// Starts the server of a volume's one namespace.
fn export(spec: &ServeSpec, volume: &ServedVolume) -> Result<Server, Failure> {
    let uuid = volume.facts().uuid;
    let nqn = match &spec.nqn {
        Some(nqn) => nqn.clone(),
        None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", dashed(&uuid.0)).parse()?,
    };
    let drive = Drive::with_uuid(volume.device(), volume.facts().block, uuid.0)?;
    Ok(Server::start(Service {
        listen: spec.listen.clone(),
        metrics: None,
        nqn,
        instance: None,
        drives: vec![drive],
        faces: HostFaces::default(),
        limits: Limits::default(),
        cores: 1,
        busy_poll: BusyPoll::USUAL,
        node: NodeOptions { memory_bytes: MEMORY, ..NodeOptions::default() },
        peers: Vec::new(),
        pacing: PaceRequest::default(),
    })?)
}

/// A UUID in the usual notation, which mdadm does not use.
fn dashed(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The end of a volume that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Clean, and its server ended well.
    Clean,
    /// Not clean, or its server failed. Threads may be waiting for devices for ever.
    Unclean,
}

impl Serving {
    /// Addresses on which it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.server.addresses()
    }

    /// Name of its subsystem.
    #[must_use]
    pub fn nqn(&self) -> &Nqn {
        self.server.nqn()
    }

    /// Waits until it is to end, and ends it: its scrub first, then its hosts, then the volume.
    ///
    /// # Errors
    /// If nobody is left who could end it.
    pub fn wait(self, log: &dyn Fn(&Event)) -> Result<Left, Failure> {
        let Self { volume, server, socket, scrubs, stops: Stops(stops) } = self;
        let ended = stops.recv().map_err(|_| Failure::new("the signal handler is gone"))?;
        if !scrubs.close() {
            log(&Event::ScrubLeft);
        }
        // Hosts are disconnected first, so that no new requests arrive.
        let stopped = server.stop();
        if let Err(error) = &stopped {
            log(&Event::ServerFailed { why: error.to_string(), stops: false });
        }
        let status = volume.control().status_within(LAST_STATUS);
        let clean = volume.stop(STOP_TIME);
        if !clean {
            let why = match status {
                Ok(status) if status.held => "more members are missing than it survives",
                Err(ControlError::Unanswered) => "it waits for a drive or a node that does not answer",
                _ => "it took too long, or members have failed",
            };
            log(&Event::NotClean { why: Some(why.to_owned()) });
        }
        for ended in [&ended].into_iter().chain(stops.try_iter().collect::<Vec<_>>().iter()) {
            if let Ended::Asked(asker) = ended {
                asker.tell(clean);
            }
        }
        // It may be gone already, and another process may have made one.
        socket.remove();
        if let Ended::Failed(why) = &ended {
            log(&Event::ServerFailed { why: why.clone(), stops: true });
        }
        let is_well = clean && stopped.is_ok() && !matches!(ended, Ended::Failed(_));
        Ok(if is_well { Left::Clean } else { Left::Unclean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_dashes() {
        let uuid: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(dashed(&uuid), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
