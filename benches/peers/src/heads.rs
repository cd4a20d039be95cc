//! Counting the heads of requests that have no bodies.

const END: [u8; 4] = *b"\r\n\r\n";

/// How much of a head's end the input so far ends with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heads {
    matched: u8,
}

impl Heads {
    /// How many heads end in `input`, which follows what was given before.
    pub(crate) fn count(&mut self, input: &[u8]) -> usize {
        let mut count = 0;
        for &byte in input {
            self.matched = match byte {
                b'\n' if self.matched == 3 => {
                    count += 1;
                    0
                }
                byte if byte == END[usize::from(self.matched)] => self.matched + 1,
                b'\r' => 1,
                _ => 0,
            };
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_counted_wherever_the_input_is_cut() {
        let input = b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n\r\nGET /";
        for first in 0..input.len() {
            for second in first..input.len() {
                let mut heads = Heads::default();
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                let count: usize = pieces.into_iter().map(|piece| heads.count(piece)).sum();
                assert_eq!(count, 2, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn only_two_whole_line_ends_in_a_row_end_a_head() {
        for (input, count) in [
            (&b""[..], 0),
            (b"\r\n", 0),
            (b"\n\n", 0),
            (b"\r\r\n\r\n", 1),
            (b"\r\n\r\r\n", 0),
            (b"\r\nx\r\n", 0),
            (b"\r\n\n\r\n\r\n", 1),
            (b"\r\n\r\n\r\n", 1),
            (b"\r\n\r\n\r\n\r\n", 2),
        ] {
            assert_eq!(Heads::default().count(input), count, "{input:?}");
        }
    }
}
