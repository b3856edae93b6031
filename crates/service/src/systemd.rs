//! Words of a process to the manager that started it: sd_notify(3), without a library.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The manager's socket, and the interval at which it wants to hear; neither outside of systemd.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

/// The address that a variable names: a path, or `@` and a name without a file. Other kinds are
/// for virtual machines.
fn address(name: &OsString) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', rest @ ..] if !rest.is_empty() => SocketAddr::from_abstract_name(rest).ok(),
        [b'/', _, ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

/// The interval of a watchdog in microseconds, if it is for this process.
fn interval(micros: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(std::process::id())) {
        return None;
    }
    micros?.parse().ok().filter(|micros| *micros > 0).map(Duration::from_micros)
}

impl Manager {
    /// The manager of this process, by its environment.
    #[must_use]
    pub fn of_environment() -> Self {
        let text = |name| std::env::var(name).ok();
        let socket = std::env::var_os("NOTIFY_SOCKET");
        let watchdog = interval(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref());
        Self::new(socket.as_ref(), watchdog)
    }

    fn new(socket: Option<&OsString>, watchdog: Option<Duration>) -> Self {
        let socket = socket.and_then(address).and_then(|to| Some((UnixDatagram::unbound().ok()?, to)));
        Self { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    fn tell(&self, state: &str) {
        if let Some((socket, to)) = &self.socket {
            // A manager that does not listen acts as if nothing was said.
            let _ = socket.send_to_addr(state.as_bytes(), to);
        }
    }

    /// Tells that the process ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Tells that the process serves, and from now on that it is alive, as long as `is_alive`
    /// says so within the time that it is given. If it does not, the manager hears nothing, and
    /// ends the process when its own time is over.
    pub fn ready(&self, is_alive: impl Fn(Duration) -> bool + Send + 'static) {
        self.tell("READY=1");
        let (Some(interval), Some((socket, to))) = (self.watchdog, &self.socket) else { return };
        let Ok(socket) = socket.try_clone() else { return };
        let to = to.clone();
        // Without the thread nobody tells that the process is alive: the manager starts it anew.
        let _ = std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            loop {
                if is_alive(interval / 4) {
                    let _ = socket.send_to_addr(b"WATCHDOG=1", &to);
                }
                std::thread::sleep(interval / 4);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
    }

    #[test]
    fn a_manager_hears_by_a_path_and_by_a_name_without_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("pumice-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, variable) in
            [(by_path, path.into_os_string()), (by_name, OsString::from(format!("@{name}")))]
        {
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let alive = Arc::new(AtomicBool::new(true));
            let is_alive = Arc::clone(&alive);
            let manager = Manager::new(Some(&variable), Some(Duration::from_millis(100)));
            manager.ready(move |_| is_alive.load(Ordering::SeqCst));
            assert_eq!(heard(&socket).as_deref(), Some("READY=1"));
            for _ in 0..3 {
                assert_eq!(heard(&socket).as_deref(), Some("WATCHDOG=1"));
            }
            alive.store(false, Ordering::SeqCst);
            while heard(&socket).is_some() {}
            manager.stopping();
            assert_eq!(heard(&socket).as_deref(), Some("STOPPING=1"));
        }
    }

    #[test]
    fn nothing_is_told_without_a_manager() {
        for name in ["", "@", "/", "relative", "vsock:2:1"] {
            let manager = Manager::new(Some(&OsString::from(name)), Some(Duration::from_secs(1)));
            assert!(manager.socket.is_none() && manager.watchdog.is_none(), "{name}");
            manager.ready(|_| panic!("nobody asks"));
            manager.stopping();
        }
        assert_eq!(interval(Some("2000000"), None), Some(Duration::from_secs(2)));
        assert_eq!(interval(Some("2000000"), Some("1")), None, "it is for another process");
        for micros in [None, Some("0"), Some("-1"), Some("x"), Some("99999999999999999999999")] {
            assert_eq!(interval(micros, None), None);
        }
    }
}
