//! Every command of the README and the operator's guide runs as it is written.
//!
//! A line of a `sh` block that begins with `pumice` is run. Placeholders stand for real things:
//!
//! * `/dev/sdb`, `/dev/sdb,pi=…`: the first member of a small damaged array; the same with tags in
//!   the test's folder;
//! * `/dev/sd[…]`, `/dev/md0`: the other members of that array, or all of them;
//! * `10.0.0.N`, `nvme://10.0.0.N`: a node that serves its share of the members;
//! * of `pumice volume`, `/dev/sd[…]`: new drives; `/dev/sdX`: one more of them for each letter;
//!   `UUID`: that of the volume;
//! * `/srv/flash`, `64GiB`: a file in the test's folder, of 64 MiB.
//!
//! A volume that a page serves is served until the page stops it, or ends.

use crate::network::Node;
use crate::small_array::{Made, RAID6, damage, pumice};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a rebuild of a volume, or for its end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The commands of a page, without comments.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && line.starts_with("pumice ") {
            let command = line.split(" # ").next().unwrap_or(line);
            out.push(command.split_whitespace().skip(1).map(str::to_owned).collect());
        }
    }
    out
}

/// The numbers N of the addresses `10.0.0.N` in a command.
fn nodes_of(words: &[String]) -> BTreeSet<usize> {
    let number = |word: &String| {
        let (_, rest) = word.split_once("10.0.0.")?;
        rest.split(':').next()?.parse().ok()
    };
    words.iter().filter_map(number).collect()
}

/// A child that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files on which the commands of one page work.
struct Stage {
    page: PathBuf,
    array: Made,
    folder: tempfile::TempDir,
    /// The first member has tags.
    tagged: bool,
    volume: Option<Served>,
    /// The devices of the volume by role, and the role that failed last.
    drives: Vec<PathBuf>,
    failed: usize,
}

impl Stage {
    fn new(page: PathBuf) -> Self {
        let array = Made::new(RAID6);
        damage(&array, 0, 7, 8192, 300);
        let folder = tempfile::tempdir().unwrap();
        let drives = (0..6).map(|i| folder.path().join(format!("new{i}"))).collect();
        Self { page, array, folder, tagged: false, volume: None, drives, failed: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The first member with its tags.
    fn with_tags(&self) -> PathBuf {
        format!("{},pi=16,tags={}", self.array.members[0].display(), self.path("tags").display()).into()
    }

    /// The members as nodes serve them.
    fn members(&self) -> Vec<PathBuf> {
        let mut members = self.array.members.clone();
        if self.tagged {
            members[0] = self.with_tags();
        }
        members
    }

    /// Nodes that share out the members.
    fn nodes(&self, count: usize) -> Vec<Node> {
        let members = self.members();
        let share = members.len().div_ceil(count.max(1));
        let listen = ["--listen", "127.0.0.1:0"];
        members.chunks(share).take(count).map(|drives| Node::start(&listen, drives)).collect()
    }

    fn run(&mut self, words: &[String]) {
        match words[0].as_str() {
            "node" => self.node(&words[1..]),
            "volume" => self.volume_command(&words[1..]),
            "flash" => self.ended(self.flash(words), &[0], words),
            _ => self.plain(words),
        }
    }

    fn ended(&self, mut command: Command, codes: &[i32], words: &[String]) {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned()).concat();
        let code = output.status.code();
        let page = self.page.display();
        assert!(code.is_some_and(|code| codes.contains(&code)), "{page}: {words:?}: exit {code:?}: {said}");
    }

    /// A node starts. Its drives are ours, and it listens on an address of its own.
    fn node(&mut self, options: &[String]) {
        let known = |option: &String| ["--listen", "--drive", "--peer"].contains(&option.as_str());
        assert!(options.iter().step_by(2).all(known), "{options:?}");
        let (mut args, mut drives) = (vec!["--listen", "127.0.0.1:0"], Vec::new());
        for pair in options.chunks(2) {
            match (pair[0].as_str(), pair[1].as_str()) {
                ("--peer", _) => args.extend(["--peer", "127.0.0.1:9"]),
                ("--drive", drive) if drive.starts_with("flash:") => drives.push(self.flash_place(drive)),
                ("--drive", drive) if drive.contains("pi=") => drives.push(self.with_tags()),
                ("--drive", _) => drives.push(self.array.members[drives.len()].clone()),
                _ => {}
            }
        }
        assert_eq!(Node::start(&args, &drives).stop(), Some(0), "{}: {options:?}", self.page.display());
    }

    fn flash_place(&self, word: &str) -> PathBuf {
        let place = self.path("flash").display().to_string();
        word.replace("/srv/flash", &place).replace("64GiB", "64MiB").into()
    }

    fn flash(&self, words: &[String]) -> Command {
        let mut command = pumice();
        command.args(words.iter().map(|word| self.flash_place(word)));
        command
    }

    /// A scrub, and what looks at drives, arrays and repairs.
    fn plain(&mut self, words: &[String]) {
        let numbers: Vec<usize> = nodes_of(words).into_iter().collect();
        let nodes = self.nodes(numbers.len());
        let mut command = pumice();
        command.arg(&words[0]);
        if ["scrub", "repairs"].contains(&words[0].as_str()) {
            command.arg("--state-dir").arg(self.path("state"));
        }
        if words[0] == "status" {
            // What this machine runs is no part of the test.
            for option in ["--run-dir", "--root"] {
                command.arg(option).arg(self.folder.path());
            }
            command.arg("--history").arg(self.path("history.db"));
        }
        let mut first_is_named = false;
        for word in &words[1..] {
            if word.contains("pi=") {
                (self.tagged, first_is_named) = (true, true);
                command.arg(self.with_tags());
            } else if word.starts_with("/dev/") {
                command.args(&self.array.members[usize::from(first_is_named)..]);
            } else if let Some(number) = nodes_of(std::slice::from_ref(word)).first() {
                let at = numbers.iter().position(|known| known == number).unwrap();
                let (scheme, _) = word.split_once("10.0.0.").unwrap();
                command.arg(format!("{scheme}{}", nodes[at].address));
            } else if word == "FILE" {
                command.arg(self.path("FILE"));
            } else {
                command.arg(word);
            }
        }
        // No block of this drive was torn.
        let none_is_kept = words[0] == "kept" && words.len() > 3 && words[3] == "0";
        if none_is_kept {
            let output = command.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("no block is kept at 0"), "{words:?}: {said}");
            return;
        }
        self.ended(command, &[0, 1], words);
        for mut node in nodes {
            assert_eq!(node.stop(), Some(0), "{}: {words:?}", self.page.display());
        }
    }

    /// A command about a volume. `create` has new drives, and later commands have those.
    fn volume_command(&mut self, words: &[String]) {
        let new = |path: &Path| File::create(path).unwrap().set_len(8 << 20).unwrap();
        if words[0] == "create" {
            self.drives.iter().for_each(|drive| new(drive));
        }
        let mut command = pumice();
        command.arg("volume");
        if !["create", "assemble", "destroy", "release"].contains(&words[0].as_str()) {
            command.args([&words[0]]).arg("--run-dir").arg(self.folder.path());
        } else {
            command.arg(&words[0]);
        }
        if ["fail", "replace"].contains(&words[0].as_str()) {
            self.failed = words[2].parse().unwrap();
        }
        for word in &words[1..] {
            match word.as_str() {
                word if word.starts_with("/dev/sd[") => command.args(&self.drives),
                word if word.starts_with("/dev/") => {
                    let drive = self.path(&word.replace('/', "-"));
                    new(&drive);
                    self.drives[self.failed] = drive.clone();
                    command.arg(drive)
                }
                word if word.starts_with("10.0.0.") => command.arg("127.0.0.1:0"),
                "UUID" => command.arg(self.uuid()),
                word => command.arg(word),
            };
        }
        match words[0].as_str() {
            "serve" => self.serve(command, words),
            _ => self.ended(command, &[0], words),
        }
        match words[0].as_str() {
            "add" | "replace" => self.rebuilt(&words[1]),
            "stop" => self.stopped(),
            _ => {}
        }
    }

    fn uuid(&self) -> String {
        let output = pumice().args(["inspect", "--json"]).args(&self.drives).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["arrays"][0]["uuid"].as_str().unwrap_or_else(|| panic!("{document}")).to_owned()
    }

    fn serve(&mut self, mut command: Command, words: &[String]) {
        let mut served = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = served.stdout.take().unwrap();
        self.volume = Some(Served(served));
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        let page = self.page.display();
        assert!(line.starts_with("listening on 127.0.0.1:"), "{page}: volume {words:?}: {line}");
    }

    fn rebuilt(&self, name: &str) {
        let since = Instant::now();
        loop {
            let mut command = pumice();
            command.args(["volume", "status", name, "--json", "--run-dir"]).arg(self.folder.path());
            let document: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
            let members = document["members"].as_array().unwrap_or_else(|| panic!("{document}"));
            if members.iter().all(|member| member["state"] == "in_sync") {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{document}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stopped(&mut self) {
        let Served(served) = self.volume.as_mut().unwrap();
        let since = Instant::now();
        while served.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < PATIENCE, "the process goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.volume = None;
    }
}

#[test]
fn every_command_of_the_guide_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_dir(root.join("docs/guide")).unwrap();
    let mut pages: Vec<PathBuf> = guide.map(|entry| entry.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    let mut ran = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut stage = Stage::new(page);
        for words in commands(&text) {
            stage.run(&words);
            ran += 1;
        }
    }
    assert!(ran >= 45, "{ran} commands");
}
