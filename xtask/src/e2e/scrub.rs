//! `pumice scrub --json` as a process, and what it found.

use super::json::Json;
use super::mortal;
use crate::run::Failed;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Options for scrubbing an array that a kernel is writing to, over nodes: none.
const LIVE: [&str; 0] = [];
/// Verdicts that say "not known while it is being written to". They name no damage.
const UNDECIDED: [&str; 1] = ["busy"];

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) stripe: u64,
    pub(crate) verdict: String,
    pub(crate) member: Option<u64>,
    pub(crate) members: Vec<u64>,
    pub(crate) device: Option<String>,
    pub(crate) device_offset: Option<u64>,
    pub(crate) array_offset: Option<u64>,
    pub(crate) chunk_offset: u64,
    pub(crate) length: u64,
    pub(crate) repaired: bool,
}

/// A member that a pass read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadMember {
    pub(crate) role: u64,
    pub(crate) device: String,
    /// Stripes from 0 that were read.
    pub(crate) stripes: u64,
}

/// Report of a pass.
pub(crate) struct Pass {
    pub(crate) result: String,
    /// Reason for an early stop.
    pub(crate) stopped: Option<String>,
    /// By role.
    pub(crate) read: Vec<ReadMember>,
    pub(crate) stripes: u64,
    pub(crate) checked: u64,
    pub(crate) findings: Vec<Finding>,
    /// Findings that say only that a stripe was being written to.
    pub(crate) undecided: usize,
}

/// A pass over the drives of nodes while their array is in use.
pub(crate) fn live(binary: &Path, state: &Path, ports: &[u16]) -> Result<Pass, Failed> {
    pass(binary, state, &LIVE, &urls(ports))
}

/// A pass over the drives of nodes whose array may be in a state that a scrub refuses; what it said
/// then.
pub(crate) fn attempt(binary: &Path, state: &Path, ports: &[u16]) -> Result<Result<Pass, String>, Failed> {
    attempt_with(binary, state, &LIVE, &urls(ports))
}

/// A pass over the members as devices of this machine, while a node serves them to the host that
/// runs the array; what it said if it was refused.
pub(crate) fn attempt_here(
    binary: &Path,
    state: &Path,
    drives: &[String],
) -> Result<Result<Pass, String>, Failed> {
    attempt_with(binary, state, &["--allow-in-use"], drives)
}

/// That a pass over the members as devices of this machine is refused while a node serves them,
/// unless the operator allows it.
pub(crate) fn is_refused_here(binary: &Path, state: &Path, drives: &[String]) -> Result<(), Failed> {
    match attempt_with(binary, state, &[], drives)? {
        Err(said) if said.contains("--allow-in-use") => Ok(()),
        Err(said) => Err(Failed(format!("drives that a node serves: refused for another reason: {said}"))),
        Ok(pass) => Err(Failed(format!("drives that a node serves were scrubbed: {}", pass.result))),
    }
}

fn attempt_with(
    binary: &Path,
    state: &Path,
    flags: &[&str],
    devices: &[String],
) -> Result<Result<Pass, String>, Failed> {
    match execute(binary, state, flags, devices)? {
        (Some(2), _, said) => Ok(Err(said)),
        (code, text, said) => judge(code, &text, &said).map(Ok),
    }
}

/// A pass under way. It is killed when it is dropped.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Begins a pass over drives of a node.
    pub(crate) fn begin(binary: &Path, state: &Path, flags: &[&str], port: u16) -> Result<Self, Failed> {
        let mut command = mortal(binary);
        arguments(&mut command, state, flags, &urls(&[port]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(|child| Self(Some(child))).map_err(|error| not_run(&error))
    }

    /// Returns whether it goes on.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.0.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Result<Pass, Failed> {
        let child = self.0.take().ok_or_else(|| Failed("pumice scrub was not begun".to_owned()))?;
        let (code, text, said) = code_and_texts(&child.wait_with_output().map_err(|error| not_run(&error))?);
        judge(code, &text, &said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // A child that has ended is no error.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sums of the judgements of some passes.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) passes: u64,
    pub(crate) refused: u64,
    checked: u64,
    stripes: u64,
    undecided: u64,
}

impl Judged {
    /// Takes a pass that must have found nothing.
    pub(crate) fn take(&mut self, pass: Result<Pass, String>, when: &str) -> Result<(), Failed> {
        let Ok(pass) = pass else {
            self.refused += 1;
            return Ok(());
        };
        if let Some(finding) = pass.findings.first() {
            return Err(Failed(format!("a false finding while {when}: {finding:?}")));
        }
        self.passes += 1;
        self.checked += pass.checked;
        self.stripes += pass.stripes;
        self.undecided += pass.undecided as u64;
        Ok(())
    }

    /// That the passes that ran judged at least `percent` of the stripes: to skip everything is no
    /// success.
    pub(crate) fn at_least(&self, percent: u64) -> Result<(), Failed> {
        let judged = self.checked.saturating_sub(self.undecided);
        if self.passes == 0 || judged * 100 < self.stripes * percent {
            return Err(Failed(format!("too little was judged: {}", self.words())));
        }
        Ok(())
    }

    pub(crate) fn words(&self) -> String {
        let Self { passes, refused, checked, stripes, undecided } = self;
        format!(
            "{passes} scrubs, {refused} refused: no finding, {undecided} undecided, {checked} of {stripes} stripes checked"
        )
    }
}

/// A pass over files as they are, whatever their superblocks say of writes under way.
pub(crate) fn as_they_are(binary: &Path, state: &Path, drives: &[String]) -> Result<Pass, Failed> {
    pass(binary, state, &["--allow-in-use", "--assume-settled", "--settle", "100ms"], drives)
}

/// Names of all drives of nodes in a scrub.
pub(crate) fn urls(ports: &[u16]) -> Vec<String> {
    ports.iter().map(|port| format!("nvme://127.0.0.1:{port}")).collect()
}

/// A pass that repairs, over drives that are not in use. `policy` is the scrub's own word.
pub(crate) fn repair(binary: &Path, state: &Path, policy: &str, drives: &[String]) -> Result<Pass, Failed> {
    pass(binary, state, &["--repair", "--repair-policy", policy], drives)
}

/// A pass over drives that are not in use.
pub(crate) fn still(binary: &Path, state: &Path, drives: &[String]) -> Result<Pass, Failed> {
    pass(binary, state, &[], drives)
}

fn pass(binary: &Path, state: &Path, flags: &[&str], devices: &[String]) -> Result<Pass, Failed> {
    let (code, text, said) = execute(binary, state, flags, devices)?;
    judge(code, &text, &said)
}

/// Runs a scrub: its status, its document and its standard error.
fn execute(
    binary: &Path,
    state: &Path,
    flags: &[&str],
    devices: &[String],
) -> Result<(Option<i32>, String, String), Failed> {
    let mut command = Command::new(binary);
    arguments(&mut command, state, flags, devices);
    let out = command.stdin(Stdio::null()).output().map_err(|error| not_run(&error))?;
    Ok(code_and_texts(&out))
}

fn arguments(command: &mut Command, state: &Path, flags: &[&str], devices: &[String]) {
    command.args(["scrub", "--json", "--quiet", "--state-dir"]).arg(state).args(flags).args(devices);
}

fn not_run(error: &std::io::Error) -> Failed {
    Failed(format!("pumice scrub: {error}"))
}

fn code_and_texts(out: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

fn judge(code: Option<i32>, text: &str, said: &str) -> Result<Pass, Failed> {
    let document = Json::parse(text)
        .ok_or_else(|| Failed(format!("pumice scrub ended with {code:?}, and no document: {said}")))?;
    let pass = read(&document).ok_or_else(|| Failed(format!("pumice scrub: a field is missing: {text}")))?;
    let wanted = match pass.result.as_str() {
        "clean" => 0,
        "findings" => 1,
        "copies_differ" => 4,
        _ => 3,
    };
    if code != Some(wanted) {
        return Err(Failed(format!("pumice scrub said {} and ended with {code:?}", pass.result)));
    }
    Ok(pass)
}

fn read(document: &Json) -> Option<Pass> {
    let all: Option<Vec<Finding>> = document.list("findings")?.iter().map(finding).collect();
    let (undecided, findings): (Vec<_>, Vec<_>) =
        all?.into_iter().partition(|finding| UNDECIDED.contains(&finding.verdict.as_str()));
    let member = |json: &Json| {
        let (role, stripes) = (json.number("role")?, json.number("stripes")?);
        Some(ReadMember { role, device: json.text("device")?.to_owned(), stripes })
    };
    Some(Pass {
        result: document.text("result")?.to_owned(),
        stopped: document.text("stopped").map(str::to_owned),
        read: document.list("read")?.iter().map(member).collect::<Option<_>>()?,
        stripes: document.field("array")?.number("stripes")?,
        checked: document.number("stripes_checked")?,
        findings,
        undecided: undecided.len(),
    })
}

fn finding(json: &Json) -> Option<Finding> {
    Some(Finding {
        stripe: json.number("stripe")?,
        verdict: json.text("verdict")?.to_owned(),
        member: json.number("member"),
        members: json.list("members")?.iter().map(Json::whole).collect::<Option<_>>()?,
        device: json.text("device").map(str::to_owned),
        device_offset: json.number("device_offset"),
        array_offset: json.number("array_offset"),
        chunk_offset: json.number("chunk_offset")?,
        length: json.number("length")?,
        repaired: matches!(json.field("repaired"), Some(Json::Bool(true))),
    })
}
