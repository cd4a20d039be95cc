//! What the head of an answer says about what comes after it.

/// The longest line that is looked at; others are passed over.
const MAX_LINE_BYTES: usize = 32;

/// Reads an answer's head as it goes by.
#[derive(Debug, Default)]
pub(super) struct AnswerHead {
    line: [u8; MAX_LINE_BYTES],
    /// May be longer than what is kept of the line.
    line_bytes: usize,
    place: Place,
    has_content: bool,
    keeps_open: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    /// Between the head and its content.
    End,
    Content,
}

impl AnswerHead {
    /// Takes the next bytes of the answer.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match (self.place, byte) {
                (Place::Head, b'\n') => self.end_line(),
                (Place::Head, b'\r') => {}
                (Place::Head, _) => {
                    if let Some(place) = self.line.get_mut(self.line_bytes) {
                        *place = byte;
                    }
                    self.line_bytes += 1;
                }
                (Place::End | Place::Content, _) => {
                    self.place = Place::Content;
                    return;
                }
            }
        }
    }

    /// Whether the answer has content of a known length, of which nothing went
    /// by yet.
    pub(super) fn content_follows(&self) -> bool {
        self.place == Place::End && self.has_content
    }

    /// Whether the connection stays open after this answer.
    pub(super) fn keeps_open(&self) -> bool {
        self.place != Place::Head && self.keeps_open
    }

    fn end_line(&mut self) {
        if self.line_bytes == 0 {
            self.place = Place::End;
        }
        if let Some(line) = self.line.get(..self.line_bytes) {
            let colon = line.iter().position(|&byte| byte == b':');
            let (name, value) = line.split_at(colon.unwrap_or(0));
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            if name.eq_ignore_ascii_case(b"connection") {
                self.keeps_open = value.eq_ignore_ascii_case(b"keep-alive");
            } else if name.eq_ignore_ascii_case(b"content-length") {
                self.has_content = value != b"0";
            }
        }
        self.line_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after `answer` went by, however it was split.
    fn known(answer: &str) -> (bool, bool) {
        let mut whole = AnswerHead::default();
        whole.pass(answer.as_bytes());
        let known = |head: &AnswerHead| (head.content_follows(), head.keeps_open());
        for size in 1..answer.len() {
            let mut head = AnswerHead::default();
            answer
                .as_bytes()
                .chunks(size)
                .for_each(|piece| head.pass(piece));
            assert_eq!(known(&head), known(&whole), "in pieces of {size}");
        }
        known(&whole)
    }

    #[test]
    fn an_answer_says_whether_the_connection_stays_open() {
        let keeps_open = |fields: &str| {
            let head = std::format!("HTTP/1.1 200 \r\nContent-Length: 2\r\n{fields}\r\n");
            known(&head).1
        };
        assert!(keeps_open("Connection: keep-alive\r\n"));
        assert!(keeps_open("connection:Keep-Alive\r\n"));
        assert!(!keeps_open("Connection: close\r\n"));
        assert!(!keeps_open("Connection: upgrade\r\n"));
        assert!(!keeps_open("X-Connection: keep-alive\r\n"));
        assert!(!keeps_open("A: Connection: keep-alive\r\n"));
        assert!(!keeps_open(""));
        let long = std::format!("A: {}\r\nConnection: keep-alive\r\n", "x".repeat(100));
        assert!(keeps_open(&long));
        assert!(!known("HTTP/1.1 200 \r\nConnection: keep-alive\r\n").1);
    }

    #[test]
    fn content_follows_a_head_until_it_does() {
        let head = "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n";
        assert!(known(head).0);
        assert!(!known(&head[..head.len() - 2]).0);
        assert!(!known(&std::format!("{head}4")).0);
        assert!(!known(&head.replace('2', "0")).0);
        assert!(!known("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n").0);
    }
}
