//! The use of every budget and its limit. `docs/reference/visibility.md` lists them; the bounds are
//! those of `docs/design/node.md`.

use super::access::Shares;
use super::blocks::{CONNECTION_FLIGHT, IN_FLIGHT_LIMIT};
use super::budget::{FLIGHT, WINDOWS};
use super::leases::GRANTS;
use super::results::{MAX_RESULT_BYTES, MAX_RESULTS};
use super::shared::Shared;
use super::socket::SEND_LIMIT;
use pumice_nvme::controller::{Access, Places};

/// A bound, and the part of it that is used.
pub(super) struct Budget {
    pub(super) name: &'static str,
    /// In the unit of the bound.
    pub(super) used: u64,
    pub(super) limit: u64,
}

fn budget(name: &'static str, used: usize, limit: usize) -> Budget {
    Budget { name, used: used as u64, limit: limit as u64 }
}

/// All bounds. What is of a connection, host, address or association is that of the one that has
/// most.
pub(super) fn all(shared: &Shared) -> Vec<Budget> {
    let Places { hosts, of_address, of_host, others: [nodes, discovery], most_others, queues } =
        shared.subsystem().with(|subsystem| subsystem.places());
    let limits = shared.limits();
    let most = shared.metrics().fullest();
    let [flight, windows] = shared.accounts().used();
    let offload = shared.offload();
    let results = offload.results_used();
    let (grants, grants_of_association) = offload.granted();
    let (readers, most_readers) = offload.readers();
    let (parity, most_parity) = shared.turns().used();
    let (paced, most_paced) = shared.paced_turns().used();
    let associations = limits.controllers;
    vec![
        budget("connections", shared.connections(), limits.connections),
        budget(
            "connections_of_address",
            shared.newcomers().kept_of_address(),
            shared.newcomers().places_of_address(),
        ),
        budget("associations", hosts, associations),
        budget("associations_of_address", of_address, limits.controllers_of_address),
        budget("associations_of_host", of_host, limits.controllers_of_host),
        budget("associations_of_nodes", nodes, most_others),
        budget("associations_of_discovery", discovery, most_others),
        budget("queues_of_association", queues, usize::from(limits.queues)),
        Budget { name: "flight_of_connection", used: most.flight, limit: CONNECTION_FLIGHT },
        Budget { name: "flight_of_host", used: flight.0, limit: Shares::EACH.flight.most },
        Budget { name: "flight_shared", used: flight.1, limit: FLIGHT },
        Budget { name: "windows_of_host", used: windows.0, limit: Shares::EACH.windows.most },
        Budget { name: "windows_shared", used: windows.1, limit: WINDOWS },
        Budget { name: "unsent_of_connection", used: most.unsent, limit: SEND_LIMIT as u64 },
        Budget { name: "commands_of_connection", used: most.commands, limit: IN_FLIGHT_LIMIT as u64 },
        budget("results_of_queue", results.of_queue, MAX_RESULTS),
        budget("results_of_association", results.of_controller, MAX_RESULT_BYTES),
        budget("results", results.of_all, associations * MAX_RESULT_BYTES),
        budget("grants_of_association", grants_of_association, GRANTS),
        budget("grants", grants, associations * GRANTS),
        budget("paces", shared.pacing().askers(), associations),
        budget("parity_commands_at_work", parity, most_parity),
        budget("paced_commands_at_work", paced, most_paced),
        budget("parity_readers", readers, most_readers),
    ]
}
