//! The TLS client against servers that are what they say, and others.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context, Result};
use firstpoll_qemu_tests::origin::{HOST, request_target, serve};
use firstpoll_qemu_tests::{Run, run};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use xtask::guest::Ending;
use xtask::qemu::Options;

/// The name that the servers' certificates are for.
const NAME: &str = "server.example";

type Tls = StreamOwned<ServerConnection, TcpStream>;

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, as `ca=` wants it.
    base64: String,
}

impl Authority {
    fn new() -> Result<Self> {
        Self::called("an authority of the tests")
    }

    fn called(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let lines = pem.lines().filter(|line| !line.contains("CERTIFICATE"));
        Ok(Self {
            base64: lines.collect(),
            issuer: Issuer::new(params, key),
        })
    }

    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Result<Identity> {
        Identity::signed_by(&self.issuer, Vec::new(), change)
    }
}

/// What a server shows, and the key to it.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    params: CertificateParams,
    key: KeyPair,
}

impl Identity {
    fn signed_by(
        issuer: &Issuer<'_, KeyPair>,
        above: Vec<CertificateDer<'static>>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<Self> {
        // The address is that of the host as the guest sees it.
        let mut params = CertificateParams::new([NAME.to_owned(), HOST.to_string()])?;
        change(&mut params);
        let key = KeyPair::generate()?;
        let mut chain = vec![params.signed_by(&key, issuer)?.der().clone()];
        chain.extend(above);
        Ok(Self { chain, params, key })
    }

    /// Serves connections; each handshake, or why there was none, and the
    /// end of `answer` are reported.
    fn serve(
        self,
        answer: fn(&mut Tls) -> io::Result<()>,
    ) -> Result<(u16, mpsc::Receiver<io::Result<()>>)> {
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain, key.into())?;
        let config = Arc::new(config);
        let (reports, received) = mpsc::channel();
        let port = serve(move |stream| {
            let served = ServerConnection::new(Arc::clone(&config))
                .map_err(io::Error::other)
                .and_then(|connection| {
                    let mut tls = StreamOwned::new(connection, stream);
                    request_target(&mut tls)?;
                    answer(&mut tls)
                });
            let _ = reports.send(served);
        })?;
        Ok((port, received))
    }
}

/// Answers with a page and closes the connection in order.
fn a_page(tls: &mut Tls) -> io::Result<()> {
    let page = page();
    write!(
        tls,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}",
        page.len()
    )?;
    tls.conn.send_close_notify();
    tls.flush()
}

/// More than two records' worth.
fn page() -> String {
    (0..8000).map(|number| format!("{number:05}")).collect()
}

fn fetch(port: u16, authority: &Authority, more: &str) -> Result<Run> {
    fetch_with(port, authority, more, Vec::new())
}

fn fetch_with(port: u16, authority: &Authority, more: &str, extra: Vec<String>) -> Result<Run> {
    let ca = &authority.base64;
    let options = Options {
        append: format!("ca={ca} url=https://{HOST}:{port}/ {more}"),
        extra,
        ..Options::default()
    };
    run("tls", &options)
}

/// What the server made of a guest that did not trust it.
fn refusal(reports: &mpsc::Receiver<io::Result<()>>) -> Result<String> {
    let report = reports.recv_timeout(Duration::from_secs(10))?;
    Ok(report.err().context("the server was trusted")?.to_string())
}

fn assert_refused(run: &Run, reason: &str) {
    assert_eq!(run.ending, Ending::Guest(1), "{}", run.text());
    assert!(run.has(reason), "no {reason:?} in\n{}", run.text());
    assert!(!run.has("status 200"), "{}", run.text());
}

#[test]
fn a_page_is_fetched_by_address_and_by_name() -> Result<()> {
    let authority = Authority::new()?;
    let (port, reports) = authority.sign(|_| {})?.serve(a_page)?;
    let by_name = format!("url=https://{NAME}:{port}/ address={HOST}");
    for more in ["", &by_name] {
        let run = fetch(port, &authority, more)?;
        assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
        assert!(run.has("status 200, 40000 bytes"), "{}", run.text());
        assert!(run.lines.iter().any(|line| *line == page()));
        reports.recv_timeout(Duration::from_secs(10))??;
    }
    Ok(())
}

#[test]
fn a_chain_over_another_authority_is_followed() -> Result<()> {
    let authority = Authority::new()?;
    let between = authority.sign(|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    })?;
    let issuer = Issuer::new(between.params, between.key);
    let server = Identity::signed_by(&issuer, between.chain, |_| {})?;
    let (port, _reports) = server.serve(a_page)?;
    let run = fetch(port, &authority, "")?;
    assert_eq!(run.ending, Ending::Guest(0), "{}", run.text());
    Ok(())
}

/// Not even if it takes the name of the one that is.
#[test]
fn another_authority_is_not_trusted() -> Result<()> {
    let authority = Authority::new()?;
    for (other, reason) in [
        (
            Authority::called("another")?,
            "not from the given authority",
        ),
        (Authority::new()?, "only pretends to be from"),
    ] {
        let (port, reports) = other.sign(|_| {})?.serve(a_page)?;
        assert_refused(&fetch(port, &authority, "")?, reason);
        let refusal = refusal(&reports)?;
        assert!(refusal.contains("received fatal alert"), "{refusal}");
    }
    Ok(())
}

/// A certificate for a server does not make its owner an authority.
#[test]
fn a_server_cannot_vouch_for_another() -> Result<()> {
    let authority = Authority::new()?;
    let honest = authority.sign(|_| {})?;
    let issuer = Issuer::new(honest.params, honest.key);
    let server = Identity::signed_by(&issuer, honest.chain, |_| {})?;
    let (port, reports) = server.serve(a_page)?;
    assert_refused(&fetch(port, &authority, "")?, "the server is not trusted");
    refusal(&reports)?;
    Ok(())
}

#[test]
fn another_name_is_not_accepted() -> Result<()> {
    let authority = Authority::new()?;
    let (port, reports) = authority.sign(|_| {})?.serve(a_page)?;
    let more = format!("url=https://other.example:{port}/ address={HOST}");
    assert_refused(&fetch(port, &authority, &more)?, "is for another host");
    refusal(&reports)?;
    Ok(())
}

/// By the guest's clock, not the host's.
#[test]
fn certificates_end_and_begin() -> Result<()> {
    let authority = Authority::new()?;
    let (port, _) = authority
        .sign(|params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2022, 1, 1);
        })?
        .serve(a_page)?;
    assert_refused(&fetch(port, &authority, "")?, "has expired");
    for (date, outcome) in [
        ("2021-06-01", None),
        ("2019-12-31", Some("is not valid yet")),
        ("2022-01-02", Some("has expired")),
    ] {
        let extra = vec!["-rtc".to_owned(), format!("base={date}")];
        let run = fetch_with(port, &authority, "", extra)?;
        match outcome {
            Some(reason) => assert_refused(&run, reason),
            None => assert_eq!(run.ending, Ending::Guest(0), "{}", run.text()),
        }
    }
    Ok(())
}

/// Without a length the page would seem whole.
#[test]
fn a_connection_that_is_cut_shows() -> Result<()> {
    let authority = Authority::new()?;
    let (port, _) = authority.sign(|_| {})?.serve(|tls| {
        write!(tls, "HTTP/1.1 200 OK\r\n\r\nthe first half")?;
        tls.flush()
    })?;
    assert_refused(&fetch(port, &authority, "")?, "the connection was cut");

    // In the middle of the handshake.
    let port = serve(|mut stream| {
        let _ = stream.read(&mut [0; 5]);
        let _ = stream.read(&mut [0; 4096]);
    })?;
    assert_refused(&fetch(port, &authority, "")?, "the connection was cut");
    Ok(())
}

#[test]
fn what_is_no_tls_is_said() -> Result<()> {
    let authority = Authority::new()?;
    let port = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 4096]);
    })?;
    assert_refused(&fetch(port, &authority, "")?, "error: ");
    let run = fetch(port, &authority, "ca=AAAA")?;
    assert_refused(&run, "ca= wants a certificate");
    Ok(())
}
