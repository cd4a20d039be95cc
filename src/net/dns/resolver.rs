//! Looking up a name: what needs no server, both families, aliases.

use core::future::poll_fn;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use super::addresses::{Addresses, Family};
use super::exchange;
use super::message::{Answer, Kind, MAX_ALIASES, Question};
use super::name::Name;
use crate::net::state::now;
use crate::net::{Error, Stack};
use crate::time::{Instant, sleep};

/// How long a lookup takes at most, unless another time is wanted.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// While the addresses of one family are known, those of the other are waited for
/// no longer than this: some servers never answer for one.
const GRACE: Duration = Duration::from_secs(1);

/// Looks up names; [`Stack::resolve`] with its options.
///
/// # Examples
///
/// ```no_run
/// use firstpoll::net::dns::{Family, Resolver};
/// use firstpoll::net::{Error, Stack};
/// use firstpoll::time::Duration;
///
/// async fn lookup(stack: Stack) -> Result<(), Error> {
///     let resolver = Resolver::new(stack).timeout(Duration::from_secs(1));
///     for address in resolver.resolve("example.org", Family::Any).await?.iter() {
///         firstpoll::println!("{address}");
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Resolver {
    stack: Stack,
    timeout: Duration,
}

impl Resolver {
    /// A resolver that takes at most 5 s for a lookup.
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            timeout: TIMEOUT,
        }
    }

    /// The same with another time for a lookup.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// As [`Stack::resolve`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn resolve(self, name: &str, family: Family) -> Result<Addresses, Error> {
        if let Ok(address) = name.parse() {
            return of_family(address, family);
        }
        let name = Name::parse(name)?;
        if name.is_localhost() {
            return Ok(localhost(family));
        }
        let deadline = Instant::now() + self.timeout;
        let lookup = |kind| self.lookup(Question { name, kind }, deadline);
        match family {
            Family::V4 => lookup(Kind::A).await,
            Family::V6 => lookup(Kind::Aaaa).await,
            Family::Any => both(lookup(Kind::Aaaa), lookup(Kind::A)).await,
        }
    }

    /// Answers one question, from the cache or by asking.
    async fn lookup(self, question: Question, deadline: Instant) -> Result<Addresses, Error> {
        let shared = self.stack.shared;
        let mut current = question;
        let mut ttl = u32::MAX;
        // An alias that comes alone leads to another question.
        for _ in 0..=MAX_ALIASES {
            let (known, servers) = shared.visit(|state, _| state.known(&current));
            if let Some(addresses) = known {
                return Ok(addresses);
            }
            let servers = servers.as_slice();
            if servers.is_empty() {
                return Err(Error::NoNameServer);
            }
            match exchange::ask(self.stack, servers, &current, deadline).await? {
                Answer::Addresses(addresses, seconds) => {
                    let ttl = ttl.min(seconds);
                    shared.visit(|state, _| {
                        state.dns.cache.insert(now(), question, addresses, ttl);
                    });
                    return Ok(addresses);
                }
                Answer::Alias(name, seconds) => {
                    ttl = ttl.min(seconds);
                    current.name = name;
                }
                Answer::NoName => return Err(Error::NameNotFound),
                Answer::NoAddress => return Err(Error::NameWithoutAddress),
                Answer::Truncated | Answer::Failed => return Err(Error::NameServerFailed),
            }
        }
        Err(Error::NameServerFailed)
    }
}

/// The address that was given in place of a name.
fn of_family(address: IpAddr, family: Family) -> Result<Addresses, Error> {
    match (family, address) {
        (Family::V4, IpAddr::V6(_)) | (Family::V6, IpAddr::V4(_)) => Err(Error::NameWithoutAddress),
        _ => Ok(address.into()),
    }
}

fn localhost(family: Family) -> Addresses {
    let four = Addresses::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let six = Addresses::from(IpAddr::V6(Ipv6Addr::LOCALHOST));
    match family {
        Family::V4 => four,
        Family::V6 => six,
        Family::Any => Addresses::interleaved(&six, &four),
    }
}

/// Both lookups at once: what they find, or why neither found anything.
async fn both(
    six: impl Future<Output = Result<Addresses, Error>>,
    four: impl Future<Output = Result<Addresses, Error>>,
) -> Result<Addresses, Error> {
    let (mut six, mut four) = (pin!(six), pin!(four));
    let (mut found_six, mut found_four) = (None, None);
    let mut grace = None;
    poll_fn(|context| {
        if found_six.is_none()
            && let Poll::Ready(found) = six.as_mut().poll(context)
        {
            found_six = Some(found);
        }
        if found_four.is_none()
            && let Poll::Ready(found) = four.as_mut().poll(context)
        {
            found_four = Some(found);
        }
        match (found_six, found_four) {
            (Some(six), Some(four)) => Poll::Ready(join(six, four)),
            (Some(Ok(found)), None) | (None, Some(Ok(found))) => {
                let grace = grace.get_or_insert_with(|| sleep(GRACE));
                Pin::new(grace).poll(context).map(|()| Ok(found))
            }
            _ => Poll::Pending,
        }
    })
    .await
}

fn join(six: Result<Addresses, Error>, four: Result<Addresses, Error>) -> Result<Addresses, Error> {
    match (six, four) {
        (Ok(six), Ok(four)) => Ok(Addresses::interleaved(&six, &four)),
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        // That there is none of one family says less than anything else.
        (Err(error), Err(Error::NameWithoutAddress)) | (Err(_), Err(error)) => Err(error),
    }
}
