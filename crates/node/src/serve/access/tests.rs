//! The table, the rights of every command, and a server that asks.

mod denied;

use super::*;
use pumice_nvme::spec::Sqe;
use pumice_nvme::spec::command::{ADMIN, FABRICS_TYPES, IO, Sender};
use pumice_nvme::spec::opcode::FABRICS;
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

    fn asked(&self) -> Rights {
        asked(Sender::Host, self.on, &self.sqe())
    }
}

/// The names of rights, as the page has them.
fn names(rights: Rights) -> String {
    let name = |right: &Right| format!("{right:?}").to_lowercase();
    Right::ALL.iter().filter(|right| rights.has(**right)).map(name).collect::<Vec<_>>().join(", ")
}

#[test]
fn every_command_asks_for_its_rights_and_the_page_says_which() {
    let page = include_str!("../../../../../docs/design/node.md");
    for command in every_command() {
        let asks = command.asked();
        assert_ne!(asks, Rights::NONE, "{command:?} asks for nothing");
        let Listed { set, opcode, name, .. } = command;
        let row = format!("| {set} | {opcode:02X}h | {name} | {} |", names(asks));
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    let rows = page.lines().filter(|line| {
        ["Fabrics", "Admin", "NVM", "Parity"].iter().any(|set| line.starts_with(&format!("| {set} | ")))
    });
    assert_eq!(rows.count(), every_command().len(), "the page has no others");
}

#[test]
fn another_node_asks_for_one_right() {
    let write = Sqe::new(opcode::MEMORY_WRITE, 1);
    assert_eq!(asked(Sender::Node, On::Io, &write), Rights::of(&[Right::Peers]));
    let mut observe = Sqe::new(opcode::HOLD, 0);
    observe.set_dword(10, wire::HOLD_OBSERVE);
    assert_eq!(asked(Sender::Host, On::Io, &observe), Rights::of(&[Right::Connect]), "it takes nothing");
}

/// Every set of rights against every command: it is allowed if it has all that it asks for.
#[test]
fn a_command_is_allowed_if_its_host_has_all_rights_that_it_asks_for() {
    for set in 0..1 << Right::ALL.len() {
        let host = Granted::with_faces(Faces::default()).with_rights(Rights(set));
        for command in every_command() {
            let lacks =
                Right::ALL.iter().any(|right| command.asked().has(*right) && set & 1 << *right as u16 == 0);
            let status = match command.on {
                On::Unbound => Status::CONNECT_HOST,
                On::Admin => Status::OPERATION_DENIED,
                On::Io => Status::ACCESS_DENIED,
            };
            let expected = if lacks { Err(status.dnr()) } else { Ok(()) };
            assert_eq!(allowed(&host, command.on, command.asked()), expected, "{command:?} {set:b}");
        }
    }
}

#[test]
fn a_host_that_sees_nothing_may_do_nothing_to_drives() {
    let host = Granted::with_faces(Faces::NONE);
    for command in every_command() {
        let may = allowed(&host, command.on, command.asked()).is_ok();
        let asks = names(command.asked());
        assert_eq!(may, asks == "connect" || asks == "admin", "{command:?}");
    }
}

#[test]
fn words_are_faces() {
    let (checked, unchecked) = (Some(Reads::Checked), Some(Reads::Unchecked));
    for (words, hidden, visible) in [
        (&["hidden"][..], checked, false),
        (&["visible"], None, true),
        (&["visible", "hidden"], checked, true),
        (&["unchecked"], unchecked, false),
        (&["unchecked", "visible"], unchecked, true),
    ] {
        assert_eq!(Faces::parse(words), Ok(Faces { hidden, visible }), "{words:?}");
    }
    assert_eq!(Faces::parse(&["hidden"]), Ok(Faces::default()));
    for (words, why) in [
        (&[][..], "one face at least"),
        (&["seen"], "'seen'"),
        (&["visible", "visible"], "twice"),
        (&["hidden", "visible", "hidden"], "twice"),
        (&["hidden", "unchecked"], "the same namespace"),
    ] {
        let error = Faces::parse(words).unwrap_err();
        assert!(error.contains(why), "{words:?}: {error}");
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
