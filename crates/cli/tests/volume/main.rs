//! `pumice volume` from outside: made, served, killed, served again, handed to mdadm.

mod control;
mod forged;
mod paced;
mod refused;
mod returns;
mod scrub;
mod world;

use pumice_offload::{DataNode, Drives, NodeError};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use world::{DRIVE, MIB, Served, VOLUME, World, clean, empty, pattern, wait_for};

/// A member is replaced while the volume is served; then the process dies, and an operator says
/// that nobody has the array open any more.
#[test]
fn a_member_is_replaced_and_an_array_of_a_dead_process_is_released() {
    let world = World::made(4, "5");
    let served = Served::start(&world, &[], &world.drives);
    let node = served.connect();
    let model = pattern(MIB, 3);
    node.write(VOLUME, 0, &model).unwrap();
    node.flush(VOLUME).unwrap();
    let new = empty(world.folder.path(), "new", DRIVE);
    world.ask(&["replace", "vault", "2", new.to_str().unwrap()]);
    wait_for(&world, "the rebuild", |status| status["members"][2]["state"] == "in_sync");
    let status = world.ask(&["status", "vault"]);
    assert!(status["members"][2]["device"].as_str().unwrap().ends_with("new"), "{status}");
    let uuid = status["uuid"].as_str().unwrap().to_owned();
    drop(served);
    let mut drives = world.drives.clone();
    drives[2] = new;
    let other = "00000000:00000000:00000000:00000000";
    world.refused(&["release", "--uuid", other], &drives, &["set_uuid"]);
    let (code, text) = world.run(&["release", "--uuid", &uuid], &drives);
    assert!(code == 0 && text.contains(&uuid), "{text}");
    let (code, text) = world.run(&["release", "--uuid", &uuid], &drives);
    assert!(code == 0 && text.contains("nobody had it open"), "{text}");
    let (code, text) = world.run(&["assemble"], &drives);
    assert_eq!(code, 0, "{text}");
    clean(&drives);
    let served = Served::start(&world, &[], &drives);
    let mut read = vec![0; model.len()];
    served.connect().read(VOLUME, 0, &mut read).unwrap();
    assert!(read == model);
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn a_volume_lives_through_kills_a_lost_drive_and_a_new_one() {
    let world = World::made(5, "6");
    clean(&world.drives);
    let mut model = pattern(9 * MIB, 1);
    let served = Served::start(&world, &[], &world.drives);
    let node = served.connect();
    node.write(VOLUME, 0, &model).unwrap();
    node.flush(VOLUME).unwrap();
    // Not flushed: old or new after the kill.
    let late = pattern(64 << 10, 9);
    node.write(VOLUME, MIB as u64, &late).unwrap();
    assert_eq!(world.ask(&["status", "vault"])["state"], "dirty");
    drop(served);

    let (code, text) = world.run(&["assemble"], &world.drives[..4]);
    assert!(code == 2 && text.contains("role 4") && text.contains("--degraded"), "{text}");
    let served = Served::start(&world, &[], &world.drives);
    let node = served.connect();
    let mut read = vec![0; model.len()];
    node.read(VOLUME, 0, &mut read).unwrap();
    let there = &read[MIB..MIB + late.len()];
    for (i, block) in there.chunks(4096).enumerate() {
        let at = i * 4096;
        assert!(block == &late[at..at + 4096] || block == &model[MIB + at..MIB + at + 4096], "{i}");
    }
    model[MIB..MIB + late.len()].copy_from_slice(there);
    assert!(read == model);

    let status = world.ask(&["fail", "vault", "1"]);
    assert_eq!(
        (&status["members"][1]["state"], &status["survives"]["drives"]),
        (&"missing".into(), &1.into())
    );
    node.read(VOLUME, 0, &mut read).unwrap();
    assert!(read == model, "recovered from the others");
    model[..300_032].fill(4);
    node.write(VOLUME, 0, &model[..300_032]).unwrap();
    let new = empty(world.folder.path(), "new", DRIVE);
    world.ask(&["add", "vault", new.to_str().unwrap()]);
    wait_for(&world, "the rebuild", |status| status["members"][1]["state"] == "in_sync");
    let list = world.ask(&["list"]);
    assert_eq!(list["volumes"][0]["name"], "vault");
    assert_eq!(world.ask(&["stop", "vault"])["state"], "clean");
    assert_eq!(served.ended(), Some(0));
    assert_eq!(world.ask(&["list"])["volumes"], Value::Array(Vec::new()));

    let mut drives = world.drives.clone();
    drives[1] = new;
    clean(&drives);
    let served = Served::start(&world, &["--consistency", "bitmap"], &drives);
    served.connect().read(VOLUME, 0, &mut read).unwrap();
    assert!(read == model);
    assert_eq!(served.terminate(), Some(0));
    clean(&drives);
}

/// Writes until the process is gone; every write that was flushed must be there afterwards.
#[test]
fn what_was_flushed_survives_a_kill_at_any_moment() {
    let world = World::made(4, "5");
    let blocks = 512_u64;
    let mut durable = vec![0_u64; blocks as usize];
    for round in 0..6_u64 {
        let mut served = Served::start(&world, &[], &world.drives);
        let node = served.connect();
        let pid = served.child.id().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100 + round * 70));
            Command::new("kill").args(["-KILL", &pid]).status().unwrap()
        });
        let mut may: Vec<Vec<u64>> = durable.iter().map(|tag| vec![*tag]).collect();
        let mut random = round * 77 + 1;
        let written: Result<(), NodeError> = (1..).try_for_each(|step| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if step % 9 == 0 {
                node.flush(VOLUME)?;
                may.iter_mut().for_each(|of| drop(of.drain(..of.len() - 1)));
                return Ok(());
            }
            let (block, tag) = ((random >> 33) % blocks, round << 32 | step);
            may[block as usize].push(tag);
            node.write(VOLUME, block * 4096, &tag.to_le_bytes().repeat(512))
        });
        assert!(written.is_err());
        assert!(killer.join().unwrap().success());
        served.child.wait().unwrap();
        let served = Served::start(&world, &[], &world.drives);
        let node = served.connect();
        for (block, may) in may.iter().enumerate() {
            let mut read = vec![0; 4096];
            node.read(VOLUME, block as u64 * 4096, &mut read).unwrap();
            let tag = u64::from_le_bytes(read[..8].try_into().unwrap());
            assert!(may.contains(&tag), "round {round}, block {block}: {tag:#x} is none of {may:x?}");
            assert!(read == tag.to_le_bytes().repeat(512), "round {round}, block {block} is a mixture");
            durable[block] = tag;
        }
        node.flush(VOLUME).unwrap();
        assert_eq!(served.terminate(), Some(0));
        clean(&world.drives);
    }
}

/// Arrays that Linux itself wrote, where somebody has put them: those with a bitmap are served, as
/// they are, written, and given back whole; the others are refused.
#[test]
fn an_array_of_linux_is_served_and_given_back() {
    let Some(images) = std::env::var_os("PUMICE_MD_IMAGES").map(PathBuf::from) else {
        eprintln!("SKIPPED: PUMICE_MD_IMAGES is not set, so no array written by Linux is served");
        return;
    };
    let mut world = World::new(0);
    let folder = world.folder.path().to_owned();
    assert!(Command::new(images.join("unpack.sh")).arg(&folder).status().unwrap().success());
    let index = fs::read_to_string(images.join("INDEX.tsv")).unwrap();
    let (mut served_any, mut refused_any) = (false, false);
    for line in index.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let array = folder.join(fields[0]);
        let entries = fs::read_dir(array).unwrap().map(|entry| entry.unwrap().path());
        world.drives = entries.filter(|path| path.extension().is_some_and(|e| e == "raw")).collect();
        world.drives.sort();
        if !fields[0].ends_with("-bitmap") {
            let field = if fields[0].ends_with("v0.90") { "metadata" } else { "bitmap is none" };
            world.refused(&["assemble", "--consistency", "bitmap"], &world.drives, &["m0.raw", field]);
            refused_any = true;
            continue;
        }
        world.refused(&["assemble"], &world.drives, &["m0.raw", "no room for the stripe log"]);
        let served = Served::start(&world, &["--consistency", "bitmap"], &world.drives);
        let node = served.connect();
        let bytes = node.describe().unwrap().drives[0].size_bytes;
        let mut content = vec![0; bytes as usize];
        node.read(VOLUME, 0, &mut content).unwrap();
        let hash: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hash.starts_with(fields[16]), "{}: {hash}", fields[0]);
        content[5 * MIB..6 * MIB + 512].fill(7);
        node.write(VOLUME, 5 * MIB as u64, &content[5 * MIB..6 * MIB + 512]).unwrap();
        assert_eq!(served.terminate(), Some(0));
        clean(&world.drives);
        served_any = true;
    }
    assert!(served_any && refused_any);
}

#[test]
fn what_cannot_be_done_is_refused_by_name_and_nothing_is_written() {
    let world = World::made(4, "5");
    let all = &world.drives[..];
    world.refused(&["create", "--level", "5"], all, &["drive0", "set_uuid", "--force"]);
    world.refused(&["create", "--level", "7"], all, &["--level", "'7'"]);
    world.refused(&["create", "--level", "5", "--chunk", "5000"], all, &["chunk"]);
    world.refused(&["create", "--level", "5", "--layout", "left-symmetric-6"], all, &["layout"]);
    world.refused(&["assemble"], &all[..3], &["role 3", "--degraded"]);
    world.refused(&["assemble", "--degraded"], &all[..2], &["2 members are missing", "survives 1"]);
    let twice = [all, &all[..1]].concat();
    world.refused(&["assemble"], &twice, &["drive0", "named twice"]);
    let other = World::made(4, "5");
    let mixed = [&all[..3], &other.drives[3..]].concat();
    world.refused(&["assemble"], &mixed, &["two arrays", "set_uuid"]);
    let blank = empty(world.folder.path(), "blank", DRIVE);
    world.refused(
        &["assemble"],
        &[all, std::slice::from_ref(&blank)].concat(),
        &["blank", "no md superblock"],
    );
    world.refused(&["status", "nothing", "--run-dir", "/nonexistent"], &[], &["nothing", "no volume"]);
    let uuid = "01234567:01234567:01234567:01234567";
    world.refused(&["destroy", "--uuid", uuid], all, &["drive0", "set_uuid"]);

    // Nobody is called failed if the volume cannot be served.
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let (sockets, nowhere) = (world.sockets(), "/proc/nowhere");
    let serve = |folder, address| ["serve", "--degraded", "--run-dir", folder, "--listen", address];
    world.refused(&serve(sockets.to_str().unwrap(), &address), &all[..3], &[&address, "in use"]);
    world.refused(&serve(nowhere, "127.0.0.1:0"), &all[..3], &[nowhere]);

    let served = Served::start(&world, &[], all);
    world.refused(&["assemble"], all, &["drive0", "locked"]);
    let small = empty(world.folder.path(), "small", 2 * MIB);
    let sockets = world.sockets();
    let sockets = sockets.to_str().unwrap();
    let ask = |args: &[&str], words: &[&str]| {
        let (code, text) = world.run(&[args, &["--run-dir", sockets]].concat(), &[]);
        assert!(code == 2 && words.iter().all(|word| text.contains(word)), "{args:?}: {text}");
    };
    ask(&["add", "vault", blank.to_str().unwrap()], &["no member is missing"]);
    ask(&["fail", "vault", "9"], &["role 9"]);
    ask(&["fail", "vault", "nobody"], &["nobody"]);
    // A device by another name, as /dev/disk/by-id has it.
    let link = world.folder.path().join("by-id");
    std::os::unix::fs::symlink(&all[2], &link).unwrap();
    world.ask(&["fail", "vault", link.to_str().unwrap()]);
    ask(&["fail", "vault", "1"], &["does not survive"]);
    ask(&["add", "vault", small.to_str().unwrap()], &["small", "a member needs"]);
    ask(&["add", "vault", other.drives[0].to_str().unwrap()], &["drive0", "set_uuid", "--force"]);
    assert_eq!(served.terminate(), Some(0));
    let left = [&all[..2], &all[3..]].concat();
    world.refused(&["assemble"], all, &["drive2", "role is faulty"]);
    let (code, text) = world.run(&["assemble"], &left);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_process_that_does_not_answer_is_named_and_the_others_are_listed() {
    let world = World::made(4, "5");
    let served = Served::start(&world, &[], &world.drives);
    let socket = world.sockets().join("0123.sock");
    let silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let hangs_up = std::thread::spawn(move || (0..2).for_each(|_| drop(silent.accept())));
    let run_dir = ["--run-dir", world.sockets().to_str().unwrap()].map(str::to_owned);
    let run = |args: &[&str]| {
        let run_dir = run_dir.each_ref().map(String::as_str);
        world.run(&[args, &run_dir].concat(), &[])
    };
    let (code, text) = run(&["list"]);
    assert!(code == 2 && text.contains("vault") && text.contains("0123.sock"), "{code}: {text}");
    let (code, text) = run(&["status", "vault"]);
    assert!(code == 0 && text.contains("vault"), "{code}: {text}");
    hangs_up.join().unwrap();
    // One that says nothing does not hold up the others for long.
    let mute = world.sockets().join("4567.sock");
    let listens = std::os::unix::net::UnixListener::bind(&mute).unwrap();
    let began = Instant::now();
    let (code, text) = run(&["status", "vault"]);
    assert!(code == 0 && text.contains("vault"), "{code}: {text}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    drop(listens);
    // A socket that nobody has is left over.
    let (code, text) = run(&["list"]);
    assert!(code == 0 && !text.contains("0123.sock"), "{code}: {text}");
    assert_eq!(served.terminate(), Some(0));
}

/// More members are gone than it survives, and do not come back: it is ended by a signal and by
/// `stop`, at once, and then its devices are free.
#[test]
fn a_held_volume_can_be_ended() {
    for by_signal in [true, false] {
        let world = World::made(3, "5");
        let served = Served::start(&world, &["--hold-timeout", "1s"], &world.drives);
        let node = served.connect();
        for drive in &world.drives[..2] {
            fs::File::options().write(true).open(drive).unwrap().set_len(0).unwrap();
        }
        node.write(VOLUME, 0, &pattern(MIB, 5)).unwrap_err();
        wait_for(&world, "the hold", |status| status["state"] == "held");
        let began = Instant::now();
        let code = if by_signal {
            served.terminate()
        } else {
            let (code, text) = world.run(&["stop", "vault", "--run-dir"], &[world.sockets()]);
            assert!(code == 2 && text.contains("could not be left clean"), "{code}: {text}");
            served.ended()
        };
        assert_eq!(code, Some(3));
        let took = began.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}

/// Members that do not answer are in sync in all superblocks as long as the volume is held.
#[test]
fn members_that_a_held_volume_has_lost_are_named() {
    let world = World::made(3, "5");
    let served = Served::start(&world, &["--hold-timeout", "1s"], &world.drives);
    let node = served.connect();
    for drive in &world.drives[..2] {
        fs::File::options().write(true).open(drive).unwrap().set_len(0).unwrap();
    }
    node.write(VOLUME, 0, &pattern(MIB, 5)).unwrap_err();
    wait_for(&world, "the hold", |status| status["state"] == "held");
    let status = world.ask(&["status", "vault"]);
    let states = [0, 1, 2].map(|role| status["members"][role]["state"].as_str().unwrap().to_owned());
    assert_eq!(states, ["lost", "lost", "in_sync"], "{status}");
    assert!(status["members"][0]["device"].as_str().unwrap().ends_with("drive0"), "{status}");
    assert_eq!(status["survives"]["drives"], 0);
    let (code, text) = world.run(&["list", "--run-dir"], &[world.sockets()]);
    // The last column but one, in lines of 80 columns.
    let members = ["1 of 3 ", "in sync,", "lost: 0,", "1\n"];
    assert!(code == 0 && members.iter().all(|part| text.contains(part)), "{code}: {text}");
    assert_eq!(served.terminate(), Some(3));
}

/// Only the socket of a dead process makes room for a new one.
#[test]
fn what_is_no_socket_is_not_deleted_to_make_one() {
    let world = World::made(3, "5");
    let served = Served::start(&world, &[], &world.drives);
    let uuid = world.ask(&["status", "vault"])["uuid"].as_str().unwrap().replace(':', "");
    let socket = world.sockets().join(format!("{uuid}.sock"));
    // Another file came in its place: it is not this process's to remove.
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "mine").unwrap();
    assert_eq!(served.terminate(), Some(0));
    assert_eq!(fs::read(&socket).unwrap(), b"mine");
    let sockets = world.sockets();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--run-dir", sockets.to_str().unwrap()];
    let refused = || {
        let (code, text) = world.run(&serve, &world.drives);
        let named = text.contains(socket.to_str().unwrap()) && text.contains("no socket");
        assert!(code == 2 && named, "{code}: {text}");
    };
    refused();
    assert_eq!(fs::read(&socket).unwrap(), b"mine");
    // A link is none either, whatever it points to.
    let target = world.folder.path().join("target");
    drop(std::os::unix::net::UnixListener::bind(&target).unwrap());
    fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink(&target, &socket).unwrap();
    refused();
    assert!(socket.is_symlink() && target.exists());
    fs::remove_file(&socket).unwrap();
    fs::rename(&target, &socket).unwrap();
    let served = Served::start(&world, &[], &world.drives);
    assert_eq!(served.terminate(), Some(0));
    clean(&world.drives);
}
