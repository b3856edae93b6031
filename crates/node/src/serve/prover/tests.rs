use super::*;
use mio::{Poll, Token, Waker};
use pumice_nvme::auth::controller::{Controller, Step};
use pumice_nvme::auth::credentials::Credentials;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::message::Negotiate;
use pumice_nvme::auth::policy::Policy;
use pumice_nvme::auth::secret::Seed;
use std::net::Ipv4Addr;

fn job() -> Job {
    let key = ChapKey::new(None, &[1; 32]).unwrap();
    let name = |name: &str| format!("nqn.2026-11.example:{name}").parse().unwrap();
    let credentials = Credentials::new(name("host"), name("node"), &[key], &[]).unwrap();
    let mut controller = Controller::new(Arc::new(credentials), Arc::default(), 1, 0);
    let negotiate = Negotiate { concatenation: 0, offer: Some(Policy::default().offer()) }.encode(1);
    match controller.send(&negotiate, Seed::new(&[1; Seed::BYTES]), 0) {
        Step::Compute(job) => job,
        step => panic!("{step:?}"),
    }
}

fn waiting(core: &CoreHandle, address: IpAddr, name: &str, connection: usize) -> Waiting {
    let (core, gone) = (core.clone(), Arc::default());
    Waiting { name: name.to_owned(), address, core, connection, gone, job: job() }
}

fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

fn core() -> (Poll, CoreHandle) {
    let poll = Poll::new().unwrap();
    let handle = CoreHandle::new(Waker::new(poll.registry(), Token(0)).unwrap());
    (poll, handle)
}

/// An address waits behind its own only, and neither an address nor a name takes all places.
#[test]
fn addresses_take_turns_and_have_bounds() {
    let (_poll, core) = core();
    let mut state = State::default();
    let took = (0..100).filter(|n| state.push(waiting(&core, address(1), &format!("a{n}"), *n))).count();
    assert_eq!(took, PLACES);
    assert!(state.push(waiting(&core, address(2), "b", 1000)));
    let order: Vec<usize> = (0..3).map(|_| state.next().unwrap().connection).collect();
    assert_eq!(order, [0, 1000, 1], "the second address is served after one of the first");
    let many = (0..100).filter(|n| state.push(waiting(&core, address(10 + n), "one", 2000))).count();
    assert_eq!(many, PLACES, "a name that all claim");
    while state.next().is_some() {}
    assert!(state.of_address.is_empty() && state.of_name.is_empty());
}

/// All addresses of an IPv6 network are one.
#[test]
fn a_network_of_ipv6_is_one_address() {
    let (_poll, core) = core();
    let mut state = State::default();
    let at = |n: usize| IpAddr::from([0x2001, 0xDB8, 0, 0, 1, 2, 3, n as u16]);
    let took = (0..100).filter(|n| state.push(waiting(&core, at(*n), &format!("a{n}"), *n))).count();
    assert_eq!(took, PLACES);
}

#[test]
fn a_core_is_told_and_nobody_is_computed_for_that_is_gone() {
    let (_poll, core) = core();
    let prover = Prover::default();
    let gone = Waiting { gone: Arc::new(AtomicBool::new(true)), ..waiting(&core, address(1), "a", 1) };
    assert!(prover.submit(gone));
    assert!(prover.submit(waiting(&core, address(1), "a", 2)));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut told = Vec::new();
    while told.is_empty() && std::time::Instant::now() < until {
        told = core.take().computed;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(told.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [2]);
}
