use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A system in a folder, in which nothing is wrong.
struct System(tempfile::TempDir);

impl System {
    fn new() -> Self {
        let system = Self(tempfile::tempdir().unwrap());
        system.file("etc/group", "root:x:0:\npumice:x:990:\n", 0o644);
        for program in ["usr/sbin/sendmail", "usr/sbin/smartctl"] {
            system.file(program, "", 0o755);
        }
        system.wants("multi-user.target", "pumice-monitor.service");
        system.folder("var/lib/pumice", 0o750);
        system.folder("etc/pumice", 0o755);
        system
    }

    fn file(&self, path: &str, text: &str, mode: u32) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn folder(&self, path: &str, mode: u32) {
        let path = self.0.path().join(path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Enables a unit.
    fn wants(&self, target: &str, unit: &str) {
        self.link(
            &format!("etc/systemd/system/{target}.wants/{unit}"),
            &format!("/usr/lib/systemd/system/{unit}"),
        );
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).unwrap();
    }

    /// The checks that found something, with their subjects.
    fn found(&self) -> Vec<String> {
        let all = examine(self.0.path());
        assert!(all.iter().all(|trouble| !trouble.words.is_empty() && !trouble.mend.is_empty()), "{all:?}");
        all.iter().map(|trouble| format!("{} {}", trouble.check, trouble.subject)).collect()
    }
}

#[test]
fn a_system_in_order_has_no_troubles() {
    assert_eq!(System::new().found(), Vec::<String>::new());
}

#[test]
fn nothing_is_written() {
    let system = System::new();
    let tree = || {
        let mut list = std::process::Command::new("find");
        list.arg(system.0.path()).args(["-printf", "%p %m %s %T@\n"]);
        String::from_utf8(list.output().unwrap().stdout).unwrap()
    };
    let before = tree();
    system.found();
    assert_eq!(tree(), before);
}

#[test]
fn checks_of_md_are_named_while_they_are_enabled() {
    for timer in ["mdcheck_start.timer", "mdcheck_continue.timer", "raid-check.timer"] {
        let system = System::new();
        // Installed only.
        system.file(&format!("usr/lib/systemd/system/{timer}"), "[Timer]", 0o644);
        assert_eq!(system.found(), Vec::<String>::new());
        system.wants("mdmonitor.service", timer);
        assert_eq!(system.found(), [format!("md-check {timer}")]);
        system.link(&format!("etc/systemd/system/{timer}"), "/dev/null");
        assert_eq!(system.found(), Vec::<String>::new(), "{timer} is masked");
        let system = System::new();
        system.link(&format!("usr/lib/systemd/system/timers.target.wants/{timer}"), &format!("../{timer}"));
        assert_eq!(system.found(), [format!("md-check {timer}")]);
    }
}

#[test]
fn tables_of_cron_are_named_unless_their_settings_turn_them_off() {
    let system = System::new();
    system.file("etc/cron.d/mdadm", "# 57 0 * * 0 root checkarray --cron\n", 0o644);
    assert_eq!(system.found(), Vec::<String>::new(), "a comment");
    system.file("etc/cron.d/mdadm", "57 0 * * 0 root /usr/share/mdadm/checkarray --cron --all\n", 0o644);
    assert_eq!(system.found(), ["md-check /etc/cron.d/mdadm"]);
    system.file("etc/default/mdadm", "AUTOCHECK=true\n", 0o644);
    assert_eq!(system.found(), ["md-check /etc/cron.d/mdadm"]);
    system.file("etc/default/mdadm", "# AUTOCHECK=true\nAUTOCHECK=false\n", 0o644);
    assert_eq!(system.found(), Vec::<String>::new());

    let system = System::new();
    system.file("etc/cron.d/raid-check", "0 1 * * Sun root /usr/sbin/raid-check\n", 0o644);
    system.file("etc/sysconfig/raid-check", "ENABLED=\"yes\"\n", 0o644);
    assert_eq!(system.found(), ["md-check /etc/cron.d/raid-check"]);
    system.wants("timers.target", "raid-check.timer");
    assert_eq!(system.found().len(), 2);
    system.file("etc/sysconfig/raid-check", "ENABLED=no\n", 0o644);
    assert_eq!(system.found(), Vec::<String>::new());
}

#[test]
fn one_schedule_is_wanted() {
    let system = System::new();
    system.wants("timers.target", "pumice-scrub@md0.timer");
    assert_eq!(system.found(), ["two-schedules pumice-scrub@md0.timer"]);
    system.remove("etc/systemd/system/multi-user.target.wants/pumice-monitor.service");
    assert_eq!(system.found(), Vec::<String>::new());
    system.remove("etc/systemd/system/timers.target.wants/pumice-scrub@md0.timer");
    assert_eq!(system.found(), ["no-schedule pumice-monitor.service"]);
}

#[test]
fn a_served_volume_that_udev_may_take_is_named() {
    let system = System::new();
    let socket = "run/pumice/volumes/4e1c0a8b8c7a4f0e9b1d2c3a5f6e7d80.sock";
    system.file(socket, "", 0o660);
    assert_eq!(system.found(), Vec::<String>::new(), "no rule assembles arrays");
    system.file("usr/lib/udev/rules.d/64-md-raid-assembly.rules", "# rules\n", 0o644);
    let uuid = "4e1c0a8b:8c7a4f0e:9b1d2c3a:5f6e7d80";
    assert_eq!(system.found(), [format!("udev-assembles {uuid}")]);
    system.file("etc/mdadm/mdadm.conf", "AUTO +1.x -all\n", 0o644);
    assert_eq!(system.found().len(), 1);
    let mend = examine(system.0.path())[0].mend.clone();
    assert!(mend.contains(&format!("ARRAY <ignore> UUID={uuid}")) && mend.contains("/etc/mdadm/mdadm.conf"));
    system.file("etc/mdadm/mdadm.conf.d/vault.conf", &format!("ARRAY <ignore> UUID={uuid}\n"), 0o644);
    assert_eq!(system.found(), Vec::<String>::new());
    system.remove("etc/mdadm/mdadm.conf.d/vault.conf");
    system.link("etc/udev/rules.d/64-md-raid-assembly.rules", "/dev/null");
    assert_eq!(system.found(), Vec::<String>::new(), "the rule is masked");
}

#[test]
fn modes_and_the_group_are_named() {
    let system = System::new();
    system.file("etc/group", "pumicestone:x:1:\n", 0o644);
    system.folder("var/lib/pumice", 0o755);
    system.file("etc/pumice/pumice.toml", "", 0o666);
    system.file("etc/pumice/webhook.curl", "", 0o640);
    let all = examine(system.0.path());
    let mends: Vec<&str> = all.iter().map(|trouble| trouble.mend.as_str()).collect();
    assert_eq!(
        mends,
        [
            "chmod 0750 /var/lib/pumice",
            "chmod 0644 /etc/pumice/pumice.toml",
            "chmod 0600 /etc/pumice/webhook.curl",
            "groupadd --system pumice",
        ]
    );
    system.folder("etc/pumice/alert.d", 0o775);
    assert!(system.found().contains(&"modes /etc/pumice/alert.d".to_owned()));
}

#[test]
fn a_configuration_is_read_with_all_that_it_names() {
    let system = System::new();
    system.file("etc/pumice/pumice.toml", "[defaults]\nevry = \"1d\"\n", 0o644);
    system.file("etc/pumice/node.toml", "listen = 7\n", 0o644);
    assert_eq!(
        system.found(),
        ["configuration /etc/pumice/pumice.toml", "configuration /etc/pumice/node.toml"]
    );
    let words = examine(system.0.path()).remove(0).words;
    assert!(words.contains("unknown field `evry`"), "{words}");
    system.remove("etc/pumice/node.toml");
    let drive = "[[drive]]\ndevice = \"/dev/sdx\"\ntags = \"/srv/tags/x\"\n";
    system.file("etc/pumice/pumice.toml", drive, 0o644);
    assert_eq!(system.found(), ["tags /srv/tags/x"]);
    system.file("srv/tags/x", "", 0o600);
    assert!(examine(system.0.path())[0].words.contains("no such device"));
    system.file("dev/sdx", "", 0o600);
    assert_eq!(system.found(), Vec::<String>::new());
    // A file that is no file is not waited for.
    system.remove("etc/pumice/pumice.toml");
    system.folder("etc/pumice/pumice.toml", 0o755);
    assert_eq!(system.found(), ["configuration /etc/pumice/pumice.toml"]);
}

#[test]
fn programs_and_channels_that_are_missing_are_named() {
    let system = System::new();
    system.remove("usr/sbin/sendmail");
    system.remove("usr/sbin/smartctl");
    assert_eq!(system.found(), ["programs sendmail", "programs smartctl"]);
    assert_eq!(examine(system.0.path())[1].urgency, Urgency::Note);
    system.file("etc/pumice/pumice.toml", "[alerts]\nmail = \"never\"\n", 0o644);
    system.file("usr/sbin/smartctl", "", 0o755);
    assert_eq!(system.found(), ["no-channel /etc/pumice/pumice.toml"]);
    system.file("etc/pumice/alert.d/webhook", "#!/bin/sh\n", 0o755);
    assert_eq!(system.found(), ["programs curl"]);
    system.file("usr/bin/curl", "", 0o755);
    assert_eq!(system.found(), Vec::<String>::new());
}
