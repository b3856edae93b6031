//! Limits on the silence of a host.

use crate::pair::{HostQueue, admin, options};
use crate::refused::discovery;
use crate::replay::{identify, property_get};
use crate::world::{PLAIN, SECOND, World};
use pumice_nvme::controller::Limits;
use pumice_nvme::spec::connect::DYNAMIC;
use pumice_nvme::spec::{Sqe, opcode};

fn configure(queue: &mut HostQueue, world: &mut World, cc: u32, now: u64) {
    let mut sqe = property_get(0x14, false);
    sqe.0[4] = opcode::fabrics::PROPERTY_SET;
    sqe.set_dword(12, cc);
    queue.connection.submit(sqe, &[], &mut queue.out).unwrap();
    queue.run(world, now);
}

/// Ticks once a second; the second at which the connection is closed, if it is by `until`.
fn closed_at(queue: &mut HostQueue, world: &World, from: u64, until: u64) -> Option<u64> {
    (from..=until).find(|second| {
        queue.socket.connection.tick(second * SECOND, &world.shared, &mut Vec::new());
        queue.socket.connection.is_closed()
    })
}

/// A controller may take 7.5 seconds to become ready (CAP.TO), and KATO is 5 by default: nobody
/// keeps alive what is not there yet.
#[test]
fn keep_alive_begins_with_the_controller() {
    let mut world = World::new(Limits::default());
    let mut queue = HostQueue::connect(&mut world, options(0, DYNAMIC, PLAIN, true), &[1 << 20]);
    assert_eq!(closed_at(&mut queue, &world, 1, 100), None, "not enabled");
    configure(&mut queue, &mut world, 0x0046_0001, 100 * SECOND);
    queue.connection.submit(property_get(0x1C, false), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 100 * SECOND);
    assert_eq!(queue.completions.pop().unwrap().result, 1, "ready");
    // From its last tick without a controller on: KATO, and a second.
    assert_eq!(closed_at(&mut queue, &world, 101, 200), Some(107));
}

#[test]
fn a_reset_and_a_shutdown_stop_keep_alive() {
    for (cc, last) in [(0x0046_0000, 121), (0x0046_0001 | 1 << 14, 121)] {
        let mut world = World::new(Limits::default());
        let (mut queue, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
        world.drives.slow_flush = true;
        configure(&mut queue, &mut world, cc, 0);
        // Whoever is gone for good holds the controller no longer than that.
        assert_eq!(closed_at(&mut queue, &world, 1, 200), Some(last), "CC {cc:#x}");
    }
    // A reset that ends with the controller at work again.
    let mut world = World::new(Limits::default());
    let (mut queue, _) = admin(&mut world, PLAIN, true, &[1 << 20]);
    for (cc, now) in [(0x0046_0000, 5), (0x0046_0001, 20)] {
        assert_eq!(closed_at(&mut queue, &world, now - 4, now), None);
        configure(&mut queue, &mut world, cc, now * SECOND);
    }
    queue.connection.submit(identify(1, 0), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 20 * SECOND);
    assert_eq!(closed_at(&mut queue, &world, 21, 200), Some(27));
}

/// Readers of the discovery log ask for no keep alive: one that is gone must not stay for ever.
#[test]
fn a_silent_discovery_host_is_forgotten() {
    let mut world = World::new(Limits::default());
    let mut queue = discovery(&mut world, 0);
    assert_eq!(closed_at(&mut queue, &world, 1, 100), None);
    queue.connection.submit(Sqe::new(opcode::admin::KEEP_ALIVE, 0), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 100 * SECOND);
    assert_eq!(closed_at(&mut queue, &world, 101, 400), Some(221));
    // One that does ask for it has what it asked for.
    let mut queue = discovery(&mut world, 200_000);
    assert_eq!(closed_at(&mut queue, &world, 1, 400), Some(202));
    // A host of namespaces that wants none has as long, over all its queues: its place is not its
    // own for ever.
    let mut with = options(0, DYNAMIC, PLAIN, true);
    with.kato_ms = 0;
    let mut queue = HostQueue::connect(&mut world, with, &[1 << 20]);
    configure(&mut queue, &mut world, 0x0046_0001, 0);
    queue.connection.submit(property_get(0x1C, false), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    assert_eq!(closed_at(&mut queue, &world, 1, 100), None);
    queue.connection.submit(property_get(0x1C, false), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 100 * SECOND);
    assert_eq!(closed_at(&mut queue, &world, 101, 100_000), Some(221));
}

/// A host that keeps all others away must be heard of, whatever it has asked for; others need not.
#[test]
fn a_silent_holder_is_forgotten() {
    for (holds, closed) in [(true, Some(121)), (false, None)] {
        let mut world = World::new(Limits::default());
        let mut with = options(0, DYNAMIC, PLAIN, true);
        with.kato_ms = 86_400_000;
        let mut queue = HostQueue::connect(&mut world, with, &[1 << 20]);
        let cntlid = queue.completions.pop().unwrap().result as u16;
        configure(&mut queue, &mut world, 0x0046_0001, 0);
        queue.connection.submit(property_get(0x1C, false), &[], &mut queue.out).unwrap();
        queue.run(&mut world, 0);
        assert!(!holds || world.shared.0.borrow_mut().hold(cntlid));
        assert_eq!(closed_at(&mut queue, &world, 1, 10_000), closed, "holds: {holds}");
    }
}

/// A discovery controller has written nothing: its shutdown is no reason to flush the drives of
/// others.
#[test]
fn the_end_of_a_discovery_flushes_nothing() {
    let mut world = World::new(Limits::default());
    world.drives.slow_flush = true;
    let mut queue = discovery(&mut world, 0);
    configure(&mut queue, &mut world, 0x0046_0001 | 1 << 14, 0);
    assert_eq!(world.drives.flushes, 0);
    queue.connection.submit(property_get(0x1C, false), &[], &mut queue.out).unwrap();
    queue.run(&mut world, 0);
    assert_eq!(queue.completions.pop().unwrap().result, 2 << 2 | 1, "complete");
}
