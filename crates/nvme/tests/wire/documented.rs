//! `docs/design/nvme-tcp.md` lists the commands, log pages and features that are served, and no
//! others.

use crate::pair::admin;
use crate::replay::{feature, log};
use crate::world::{PLAIN, World};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::command::{ADMIN, Command, FABRICS_TYPES, IO};
use pumice_nvme::spec::feature::HOST_ID;
use pumice_nvme::spec::opcode;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/design/nvme-tcp.md");

/// The rows of the first table of a section: the cells of each.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The names in a list, without what is said of them in brackets.
fn names(list: &str) -> BTreeSet<String> {
    let mut depth = 0;
    let plain: String = list
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '(');
            let keep = depth == 0;
            depth -= i32::from(*c == ')');
            keep
        })
        .collect();
    plain.split(',').map(|name| name.trim().to_owned()).collect()
}

fn served<K, C>(commands: &[Command<K, C>]) -> BTreeSet<String> {
    commands.iter().map(|command| command.name.to_owned()).collect()
}

/// The hexadecimal numbers with which the first cells of a table begin.
fn numbers(heading: &str) -> BTreeSet<u8> {
    let cells = table(heading).into_iter().flat_map(|row| row[0].split(", ").collect::<Vec<_>>());
    cells.map(|cell| u8::from_str_radix(cell.split(' ').next().unwrap(), 16).unwrap()).collect()
}

#[test]
fn the_page_lists_the_commands() {
    let rows = table("## Commands");
    let row = |set: &str| names(rows.iter().find(|row| row[0] == set).unwrap()[1]);
    assert_eq!(row("Fabrics"), served(FABRICS_TYPES));
    assert_eq!(row("admin"), served(ADMIN));
    assert_eq!(row("I/O"), served(IO));
}

#[test]
fn the_page_lists_the_log_pages() {
    let mut world = World::new(Limits::default());
    let (mut queue, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let page = queue.read(&mut world, log(0, 1024, 0), 1024).unwrap();
    let served: BTreeSet<u8> = (0..=255).filter(|lid| page[usize::from(*lid) * 4] & 1 != 0).collect();
    // The discovery service alone has page 70.
    assert_eq!(numbers("### Log pages"), served.into_iter().chain([0x70]).collect());
}

#[test]
fn the_page_lists_the_features() {
    let mut world = World::new(Limits::default());
    let (mut queue, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    let mut served = BTreeSet::new();
    for id in 0..=255_u8 {
        // Extended host identifiers (dword 11, bit 0) are the only ones over Fabrics.
        let exhid = u32::from(id == HOST_ID);
        let get = feature(opcode::admin::GET_FEATURES, u32::from(id), exhid);
        if queue.read(&mut world, get, 4096).is_ok() {
            served.insert(id);
        }
    }
    assert_eq!(numbers("### Features"), served);
}
