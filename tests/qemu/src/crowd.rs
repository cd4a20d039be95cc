//! httpd before thousands of clients that the test makes by hand.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use firstpoll_peer::{ClientId, Config, Connection, Crowd};
use xtask::cargo::{self, Profile};
use xtask::guest::Guest;
use xtask::qemu::{Net, Options};

use crate::network::{BOOT_TIMEOUT, GUEST, STATIC};

/// The guest's port that is served.
const PORT: u16 = 80;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// As many connections are made at once: fewer than a listener's backlog.
const AT_ONCE: usize = 256;

/// httpd and its clients.
#[derive(Debug)]
pub struct Audience {
    /// The guest.
    pub httpd: Guest,
    /// All its clients.
    pub crowd: Crowd,
    path: PathBuf,
}

impl Drop for Audience {
    fn drop(&mut self) {
        // It may be gone with its directory.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The counters of `/stats`, by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// One of them.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn get(&self, name: &str) -> Result<u64> {
        let value = self.0.get(name).copied();
        value.with_context(|| format!("no counter {name} in {:?}", self.0))
    }

    /// Those whose name ends with `suffix`, in the order of their names.
    pub fn with_suffix(&self, suffix: &str) -> impl Iterator<Item = (&str, u64)> {
        let all = self.0.iter().map(|(name, &value)| (name.as_str(), value));
        all.filter(move |(name, _)| name.ends_with(suffix))
    }

    /// Reads the page.
    pub fn read(page: &str) -> Self {
        let lines = page.lines().filter_map(|line| line.split_once(' '));
        let counters = lines.filter_map(|(name, value)| Some((name.into(), value.parse().ok()?)));
        Self(counters.collect())
    }
}

impl Audience {
    /// Boots httpd with these words on its command line, on a machine with
    /// `memory_mib`, and waits until it listens.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn of_httpd(append: &str, memory_mib: u32) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("firstpoll-crowd-{}-{count}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let entrance = UnixListener::bind(&path)?;
        let options = Options {
            net: Net::Unix(path.clone()),
            append: format!("{STATIC} {append}"),
            memory_mib,
            ..Options::default()
        };
        let image = cargo::build_image("httpd", Profile::Release)?;
        let mut httpd = Guest::boot(&options, &image)?;
        // QEMU has connected before the guest can print anything.
        httpd.wait_for_line("listening on port 80", BOOT_TIMEOUT)?;
        entrance.set_nonblocking(true)?;
        let (link, _) = entrance.accept().context("QEMU did not connect")?;
        let mut audience = Self {
            httpd,
            crowd: Crowd::on(link, Config::default())?,
            path,
        };
        ensure!(
            audience.crowd.meet(GUEST, PATIENCE)?,
            "the guest does not answer ARP"
        );
        Ok(audience)
    }

    /// Connects `count` clients.
    ///
    /// # Errors
    ///
    /// If one does not get in.
    pub fn connect(&mut self, count: usize) -> Result<Vec<ClientId>> {
        let mut clients = Vec::with_capacity(count);
        while clients.len() < count {
            let some = (count - clients.len()).min(AT_ONCE);
            let some: Vec<_> = (0..some).map(|_| self.crowd.open(PORT)).collect();
            self.run_until_all(&some, |crowd, client| {
                crowd.connection(client) != Connection::Opening
            })
            .with_context(|| format!("after {} connections", clients.len()))?;
            clients.extend(some);
        }
        Ok(clients)
    }

    /// Requests `/` on each of `clients` at once; how long it took until all
    /// were answered.
    ///
    /// # Errors
    ///
    /// If one is not answered, or with something else.
    pub fn greet(&mut self, clients: &[ClientId]) -> Result<Duration> {
        let start = Instant::now();
        self.request(clients, "/");
        self.run_until_all(clients, is_answered)?;
        for &client in clients {
            let page = take_page(self.crowd.received(client))?;
            ensure!(page == "Hello from firstpoll!\n", "{page:?} is no greeting");
        }
        Ok(start.elapsed())
    }

    /// Requests `path` on each of `clients` at once.
    pub fn request(&mut self, clients: &[ClientId], path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: guest\r\n\r\n");
        for &client in clients {
            self.crowd.send(client, request.as_bytes());
        }
    }

    /// The counters, as `client` gets them.
    ///
    /// # Errors
    ///
    /// If it gets none.
    pub fn counters(&mut self, client: ClientId) -> Result<Counters> {
        self.request(&[client], "/stats");
        self.run_until_all(&[client], is_answered)?;
        Ok(Counters::read(&take_page(self.crowd.received(client))?))
    }

    /// Lets time pass, in which the clients go on.
    ///
    /// # Errors
    ///
    /// If the guest is gone.
    pub fn pass(&mut self, time: Duration) -> Result<()> {
        self.crowd.run(time, |_| false)?;
        Ok(())
    }

    /// Runs the clients until `done` holds for all of `clients`, each of which
    /// it then holds for ever.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn run_until_all(
        &mut self,
        clients: &[ClientId],
        done: impl Fn(&mut Crowd, ClientId) -> bool,
    ) -> Result<()> {
        let mut left = clients.iter().peekable();
        let in_time = self.crowd.run(PATIENCE, |crowd| {
            while left.next_if(|&&client| done(crowd, client)).is_some() {}
            left.peek().is_none()
        })?;
        ensure!(in_time, "{} of the clients wait in vain", left.len());
        Ok(())
    }
}

/// Whether `client` has received a whole answer, or will never do so.
pub fn is_answered(crowd: &mut Crowd, client: ClientId) -> bool {
    crowd.connection(client) != Connection::Open
        || !matches!(page(crowd.received(client)), Ok(None))
}

/// Takes an answer away; its content.
///
/// # Errors
///
/// If it is not whole, or tells of an error.
pub fn take_page(received: &mut Vec<u8>) -> Result<String> {
    let (page, rest) = page(received)?.context("the answer is not complete")?;
    let (page, taken) = (page.to_owned(), received.len() - rest.len());
    received.drain(..taken);
    Ok(page)
}

/// The content of the answer at the start of `received`, and what follows it.
fn page(received: &[u8]) -> Result<Option<(&str, &[u8])>> {
    let Some(end) = received.windows(4).position(|end| end == b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, rest) = received.split_at(end + 4);
    let head = str::from_utf8(head)?;
    ensure!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length = crate::http::field(head, "Content-Length").context("no length")?;
    let Some((page, rest)) = rest.split_at_checked(length.parse()?) else {
        return Ok(None);
    };
    Ok(Some((str::from_utf8(page)?, rest)))
}
