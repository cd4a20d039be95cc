//! The one answer of the HTTP servers, which is that of the example httpd.

/// The content at `/`.
pub const BODY: &str = "Hello from firstpoll!\n";

/// The whole answer.
pub const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 22\r\n\
    \r\n\
    Hello from firstpoll!\n";

#[cfg(test)]
mod tests {
    use super::*;
    use httpd::{Pages, Session, Step};
    use std::fmt::Display;

    struct NoStats;

    impl Pages for NoStats {
        fn stats(&self) -> impl Display {
            ""
        }
    }

    #[test]
    fn the_example_httpd_answers_the_same() {
        let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let mut session = Session::new();
        let Step::Read(buffer) = session.step(&NoStats) else {
            panic!("a session begins with a request");
        };
        buffer[..request.len()].copy_from_slice(request);
        session.received(request.len());
        assert_eq!(session.step(&NoStats), Step::Write(ANSWER));
        assert!(ANSWER.ends_with(format!("\r\n\r\n{BODY}").as_bytes()));
    }
}
