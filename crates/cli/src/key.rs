//! `pumice key`: makes and checks keys. `docs/reference/keys.md` has their forms.

use crate::text::print;
use clap::{Args, Subcommand, ValueEnum};
use pumice_node::serve::read_key;
use pumice_nvme::auth::hash::Hash;
use pumice_nvme::auth::keys::KeyError;
use pumice_nvme::auth::keys::chap::ChapKey;
use pumice_nvme::auth::keys::identity::PskHash;
use pumice_nvme::auth::keys::psk::{ConfiguredPsk, Derivation};
use pumice_nvme::spec::Nqn;
use pumice_service::failure::Failure;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zeroize::Zeroizing;

/// Makes and checks keys with which hosts and nodes prove their names.
#[derive(Debug, Subcommand)]
#[command(after_help = "Exit codes: 0 done, 2 could not run, or no good key.")]
pub(crate) enum KeyCommand {
    /// Make a key: into a new file, which nobody else can read, or onto standard output
    New(NewArgs),
    /// Check the file of a key: its rights, its folder, and its text
    Check(CheckArgs),
    /// Print the identities of a TLS key for a host and a subsystem, a line each
    Identity(IdentityArgs),
}

/// Purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// DH-HMAC-CHAP
    Chap,
    /// A pre-shared key of TLS
    Tls,
}

/// Hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeyHash {
    #[value(name = "SHA-256")]
    Sha256,
    #[value(name = "SHA-384")]
    Sha384,
    #[value(name = "SHA-512")]
    Sha512,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Purpose of the key
    #[arg(long, value_name = "KIND", default_value = "chap")]
    kind: Kind,
    /// Hash of the key, which has as many bytes as the hash; SHA-512 is not for TLS
    #[arg(long, value_name = "HASH", default_value = "SHA-256", ignore_case = true)]
    hash: KeyHash,
    /// The file, which must not exist; without it the text goes to standard output
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The file of the key
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    /// The file of the TLS key
    file: PathBuf,
    /// The host's NQN
    #[arg(long, value_name = "NQN")]
    host: Nqn,
    /// The subsystem's NQN
    #[arg(long, value_name = "NQN")]
    subsystem: Nqn,
}

/// A key of a file.
enum Key {
    Chap(ChapKey),
    Tls(ConfiguredPsk),
}

impl Key {
    fn parse(text: &str) -> Result<Self, KeyError> {
        if text.starts_with("NVMeTLSkey") {
            return text.parse().map(Self::Tls);
        }
        text.parse().map(Self::Chap)
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path)?;
        let text = read_key(&path, None)?;
        Self::parse(&text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    }

    /// Its kind and hash, and nothing of its secret.
    fn shown(&self) -> String {
        match self {
            Self::Chap(key) => {
                let hash = key.transform().map_or_else(|| "no transformation".to_owned(), |h| h.to_string());
                format!("DH-HMAC-CHAP, {} bytes, {hash}", key.secret_bytes())
            }
            Self::Tls(key) => format!("TLS, {}", key.hash().hash()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(command: &KeyCommand) -> Result<ExitCode, Failure> {
    match command {
        KeyCommand::New(args) => new(args)?,
        KeyCommand::Check(args) => print(&format!("{}\n", Key::read(&args.file)?.shown())),
        KeyCommand::Identity(args) => identity(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn new(args: &NewArgs) -> Result<(), Failure> {
    let hash = match args.hash {
        KeyHash::Sha256 => Hash::Sha256,
        KeyHash::Sha384 => Hash::Sha384,
        KeyHash::Sha512 => Hash::Sha512,
    };
    if args.kind == Kind::Tls && hash == Hash::Sha512 {
        return Err(Failure::new("--hash SHA-512: TLS keys have SHA-256 or SHA-384"));
    }
    let mut secret = Zeroizing::new(vec![0; hash.bytes()]);
    getrandom::fill(&mut secret).map_err(|error| Failure::new(format!("no random numbers: {error}")))?;
    let text = match args.kind {
        Kind::Chap => ChapKey::new(Some(hash), &secret)?.to_text(),
        Kind::Tls => ConfiguredPsk::new(true, &secret)?.to_text(),
    };
    let line = Zeroizing::new(format!("{}\n", *text));
    let Some(path) = &args.file else {
        print(&line);
        return Ok(());
    };
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

fn identity(args: &IdentityArgs) -> Result<(), Failure> {
    let Key::Tls(key) = Key::read(&args.file)? else {
        return Err(Failure::new(format!("{}: it is no key of TLS", args.file.display())));
    };
    let mut lines = String::new();
    for psk in key.accepted(&args.host, &args.subsystem) {
        let note = match psk.derivation {
            Derivation::Standard => "",
            Derivation::Compat => "  (nvme-cli 2.13 and older)",
        };
        lines.push_str(&format!("{}{note}\n", psk.identity));
    }
    if key.hash() == PskHash::Sha384 {
        lines.push_str("hosts up to Debian 13 cannot use a key of SHA-384\n");
    }
    print(&lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_without_its_secret() {
        for (text, shown) in [
            (
                "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
                "DH-HMAC-CHAP, 32 bytes, SHA-256",
            ),
            (
                "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
                "DH-HMAC-CHAP, 32 bytes, no transformation",
            ),
            ("NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", "TLS, SHA-256"),
            (
                "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
                "TLS, SHA-384",
            ),
        ] {
            assert_eq!(Key::parse(text).unwrap().shown(), shown);
        }
        let wrong = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:";
        let error = Key::parse(wrong).err().unwrap().to_string();
        assert!(!error.contains("AAEC"), "{error}");
    }
}
