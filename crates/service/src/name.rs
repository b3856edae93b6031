//! Names of drives of data nodes: `nvme://HOST:PORT/NSID`, or `nvme://HOST:PORT` for all of them.

use crate::failure::Failure;
use std::fmt;
use std::path::Path;

/// Beginning of a name of a node.
pub(crate) const SCHEME: &str = "nvme://";
/// The port assigned to NVMe over Fabrics.
const PORT: u16 = 4420;

/// A drive of a node, or all of its drives, as named. A value only: nothing is looked up or dialled
/// to make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteName {
    /// The host's name or address, in lower case and without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The number of the drive; `None` for all.
    pub nsid: Option<u32>,
}

/// The rest of a text after `nvme://`, in capitals or not; `None` without it.
fn after_scheme(text: &str) -> Option<&str> {
    let scheme = text.get(..SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| &text[SCHEME.len()..])
}

/// A host's name or address, and the port: [`PORT`] unless one is given.
fn host_and_port(text: &str) -> Result<(&str, u16), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("after ] comes :PORT")?)),
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(format!("write an IPv6 address in brackets: [{text}]"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("no host is named".to_owned());
    }
    let wrong = |port: &str| format!("'{port}' is no port: it must be a number from 1 to 65535");
    let number = port.map(|port| port.parse().ok().filter(|n| *n > 0).ok_or_else(|| wrong(port)));
    Ok((host, number.transpose()?.unwrap_or(PORT)))
}

impl RemoteName {
    /// The node that a path names; `None` if it is the path of a device.
    ///
    /// # Errors
    /// If it begins as a name, and is none.
    pub fn of(path: &Path) -> Result<Option<Self>, Failure> {
        let Some(rest) = path.to_str().and_then(after_scheme) else { return Ok(None) };
        let wrong = |why: &str| Failure::new(format!("{}: {why}", path.display()));
        let (host, nsid) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), None),
            Some((host, nsid)) => {
                let number = nsid.parse().ok().filter(|n| (1..u32::MAX).contains(n));
                (host, Some(number.ok_or_else(|| wrong("the drive is a number from 1 on"))?))
            }
        };
        let (host, port) = host_and_port(host).map_err(|why| wrong(&why))?;
        // The zone of an address is the name of an interface, in which capitals count.
        let host = match host.split_once('%') {
            Some((address, zone)) => format!("{}%{zone}", address.to_ascii_lowercase()),
            None => host.to_ascii_lowercase(),
        };
        Ok(Some(Self { host, port, nsid }))
    }

    /// The node at an address given as an argument, with or without `nvme://`.
    ///
    /// # Errors
    /// If it is none, or names a drive.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let full = if after_scheme(text).is_some() { text.to_owned() } else { format!("{SCHEME}{text}") };
        match Self::of(Path::new(&full))? {
            Some(name) if name.nsid.is_none() => Ok(name),
            _ => Err(Failure::new(format!("{text}: a node is HOST:PORT"))),
        }
    }
}

impl fmt::Display for RemoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, nsid } = self;
        match host.contains(':') {
            true => write!(f, "{SCHEME}[{host}]:{port}")?,
            false => write!(f, "{SCHEME}{host}:{port}")?,
        }
        nsid.map_or(Ok(()), |nsid| write!(f, "/{nsid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_no_port_and_its_scheme_may_be_in_capitals() {
        let name = |text: &str| RemoteName::of(Path::new(text)).unwrap().map(|name| name.to_string());
        for (text, expected) in [
            ("nvme://127.0.0.1/3", "nvme://127.0.0.1:4420/3"),
            ("NVME://127.0.0.1:4421", "nvme://127.0.0.1:4421"),
            ("Nvme://[::1]", "nvme://[::1]:4420"),
            ("nvme://[::1]:4421/7", "nvme://[::1]:4421/7"),
            ("nvme://Node.example/2", "nvme://node.example:4420/2"),
        ] {
            assert_eq!(name(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(name("/dev/sda"), None);
        for (text, word) in [
            ("nvme://", "no host"),
            ("nvme://:4420", "no host"),
            ("nvme://::1", "brackets"),
            ("nvme://127.0.0.1:0", "'0' is no port"),
            ("nvme://127.0.0.1:x", "'x' is no port"),
            ("nvme://[::1]4420", "comes :PORT"),
            ("nvme://127.0.0.1/0", "the drive is a number"),
        ] {
            let why = RemoteName::of(Path::new(text)).unwrap_err().to_string();
            assert!(why.contains(word), "{text}: {why}");
        }
        assert_eq!(
            RemoteName::parse("127.0.0.1").unwrap(),
            RemoteName::parse("NVME://127.0.0.1:4420").unwrap()
        );
    }
}
