//! The table, the rights of every command, and a server that asks.

mod denied;
mod foreign;

use super::rows::{Names, Row, of_admin, of_fabrics, of_nvm, of_vendor};
use super::*;
use crate::serve::hosts::KeyPaths;
use pumice_nvme::spec::command::{
    ADMIN, Effect, FABRICS_TYPES, IO, Sender, admin_command, fabrics_command, io_command,
};
use pumice_nvme::spec::opcode::FABRICS;
use pumice_nvme::spec::{Nqn, Sqe};
use pumice_offload::wire::{self, opcode};

/// A command of the tables.
#[derive(Debug, Clone, Copy)]
struct Listed {
    set: &'static str,
    on: On,
    /// Of Fabrics commands: the type.
    opcode: u8,
    name: &'static str,
}

fn row_of(set: &str, code: u8) -> Row {
    let row = match set {
        "Fabrics" => fabrics_command(code).map(|row| of_fabrics(row.kind)),
        "Admin" => admin_command(code).map(|row| of_admin(row.kind)),
        "NVM" => io_command(code).and_then(|row| of_nvm(row.kind)),
        _ => of_vendor(code),
    };
    row.unwrap()
}

/// Every command that a node knows.
fn every_command() -> Vec<Listed> {
    let listed = |set, on, opcode, name| Listed { set, on, opcode, name };
    let fabrics = FABRICS_TYPES.iter().map(|row| listed("Fabrics", row.check[0], row.opcode, row.name));
    let admin = ADMIN.iter().map(|row| listed("Admin", On::Admin, row.opcode, row.name));
    let nvm = IO.iter().map(|row| listed("NVM", On::Io, row.opcode, row.name));
    let parity = opcode::COMMANDS.iter().map(|row| listed("Parity", On::Io, row.opcode, row.name));
    fabrics.chain(admin).chain(nvm).chain(parity).collect()
}

impl Listed {
    fn sqe(&self) -> Sqe {
        let mut sqe = Sqe::new(if self.set == "Fabrics" { FABRICS } else { self.opcode }, 1);
        if self.set == "Fabrics" {
            sqe.0[4] = self.opcode;
        }
        if sqe.opcode() == opcode::HOLD {
            sqe.set_dword(10, wire::HOLD_TAKE);
        }
        sqe
    }

    fn asked(&self) -> Asks {
        asked(Sender::Host, self.on, &self.sqe())
    }

    /// The row of the page.
    fn row(&self) -> String {
        let Row { asks, names, keeps } = row_of(self.set, self.opcode);
        let asks = match asks {
            Asks::Nothing => "none",
            Asks::Listed => "listed",
            Asks::May(right) => right.word(),
        };
        let names = match names {
            Names::None => "–",
            Names::Nsid => "NSID",
            Names::Descriptor => "descriptor",
            Names::Both => "NSID, descriptor",
        };
        let keeps = if keeps { "yes" } else { "–" };
        format!("| {} | {:02X}h | {} | {asks} | {names} | {keeps} |", self.set, self.opcode, self.name)
    }
}

#[test]
fn every_command_has_a_row_and_the_page_says_it() {
    let page = include_str!("../../../../../docs/design/access.md");
    for command in every_command() {
        assert!(page.contains(&command.row()), "the page lacks: {}", command.row());
    }
    let rows = page.lines().filter(|line| {
        ["Fabrics", "Admin", "NVM", "Parity"].iter().any(|set| line.starts_with(&format!("| {set} | ")))
    });
    assert_eq!(rows.count(), every_command().len(), "the page has no others");
}

/// The commands that an observer may not send, and those that keep something, are the same.
#[test]
fn what_an_observer_may_not_send_keeps_something() {
    let keeps = |set, opcode| row_of(set, opcode).keeps;
    for row in IO {
        assert_eq!(keeps("NVM", row.opcode), row.effect == Effect::ChangesData, "{}", row.name);
    }
    for row in opcode::COMMANDS {
        let vouch = row.opcode == opcode::TAGS_VOUCH;
        assert_eq!(keeps("Parity", row.opcode), row.changes || vouch, "{}", row.name);
    }
}

#[test]
fn another_node_writes_under_a_grant_and_does_nothing_else() {
    let peer = Granted::of_peer();
    let ask = |code| allowed(&peer, On::Io, asked(Sender::Node, On::Io, &Sqe::new(code, 1)));
    for row in opcode::COMMANDS {
        assert_eq!(ask(row.opcode).is_ok(), row.opcode == opcode::MEMORY_WRITE, "{}", row.name);
    }
    for row in IO {
        assert!(ask(row.opcode).is_err(), "{}", row.name);
    }
    for row in ADMIN {
        assert_eq!(asked(Sender::Node, On::Admin, &Sqe::new(row.opcode, 0)), Asks::Nothing, "{}", row.name);
    }
}

#[test]
fn only_a_hold_that_is_taken_asks_for_repair() {
    for (what, right) in [
        (wire::HOLD_TAKE, Right::Repair),
        (wire::HOLD_RELEASE, Right::Scrub),
        (wire::HOLD_OBSERVE, Right::Scrub),
    ] {
        let mut sqe = Sqe::new(opcode::HOLD, 0);
        sqe.set_dword(10, what);
        assert_eq!(asked(Sender::Host, On::Io, &sqe), Asks::May(right));
    }
}

/// Every set of rights against every command: it is allowed if it has the right.
#[test]
fn a_command_is_allowed_if_its_host_has_the_right() {
    for set in 0_u8..1 << Right::ALL.len() {
        let words: Vec<&str> = Right::ALL
            .iter()
            .filter(|right| set & 1 << **right as u8 != 0)
            .map(|right| right.word())
            .collect();
        let rights = Rights::parse(&words).unwrap_or(Rights::NONE);
        let host = Granted::with_faces(Faces::default()).with_rights(rights);
        for command in every_command() {
            let lacks = matches!(command.asked(), Asks::May(right) if !rights.has(right));
            let expected = if lacks { Err(Status::ACCESS_DENIED.dnr()) } else { Ok(()) };
            assert_eq!(allowed(&host, command.on, command.asked()), expected, "{command:?} {words:?}");
        }
    }
}

fn connect(nqn: &str, id: u8, subsystem: &str) -> Data {
    let (hostid, cntlid) = ([id; 16], pumice_nvme::spec::connect::DYNAMIC);
    Data { hostid, cntlid, subnqn: subsystem.to_owned(), hostnqn: nqn.to_owned() }
}

#[test]
fn strangers_stay_out_of_a_list_and_pinned_identifiers_are_one_hosts() {
    let host = |number, id: Option<u8>| HostEntry {
        id: id.map(|id| [id; 16]),
        ..crate::serve::hosts::tests::host(number, KeyPaths::default())
    };
    let table = |mode| {
        let hosts = vec![host(1, None), host(2, Some(2))];
        HostTable::from_config(&AccessConfig::new(mode, hosts, Vec::new(), None).unwrap())
    };
    let (one, two) = ("nqn.2026-11.example:host1", "nqn.2026-11.example:host2");
    let stranger = "nqn.2026-11.example:host3";
    let admit = |mode, nqn, id| table(mode).admit(&connect(nqn, id, "nqn.2026-11.example:node"));
    let (out, pinned) = (Err(Status::CONNECT_HOST.dnr()), Err(Status::CONNECT_INVALID.dnr()));
    for (mode, stranger_is) in
        [(AccessMode::Listed, out), (AccessMode::Anyone, Ok(())), (AccessMode::Open, Ok(()))]
    {
        assert_eq!((admit(mode, one, 1), admit(mode, two, 2)), (Ok(()), Ok(())));
        assert_eq!(admit(mode, two, 7), Ok(()), "a pin keeps others away, and not its host");
        assert_eq!(admit(mode, one, 2), pinned);
        assert_eq!(admit(mode, stranger, 1), stranger_is, "{mode:?}");
        assert_eq!(table(mode).admit(&connect(stranger, 1, DISCOVERY_NQN)), Ok(()));
    }
}

#[test]
fn a_host_has_the_faces_that_the_list_says() {
    let nqn = |name: &str| format!("nqn.2026-11.example:{name}").parse::<Nqn>().unwrap();
    let faces = |words: &[&str]| Faces::parse(words).unwrap();
    let hosts = [
        (nqn("v"), faces(&["visible"])),
        (nqn("b"), faces(&["visible", "hidden"])),
        (nqn("u"), faces(&["unchecked"])),
    ];
    let table = HostTable::of_faces(HostFaces::new(hosts).unwrap());
    let of = |host: &str| table.of(nqn(host).as_str()).faces();
    assert_eq!((of("v"), of("b")), (faces(&["visible"]), faces(&["visible", "hidden"])));
    assert_eq!(
        (of("u"), of("another"), table.of("").faces().is_unchecked()),
        (faces(&["unchecked"]), Faces::default(), false)
    );
    assert_eq!(HostFaces::new(vec![(nqn("v"), Faces::default()); 2]), Err(nqn("v")));
}
