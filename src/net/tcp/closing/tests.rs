//! What a record makes of each segment, and the bounds of the records.

use core::net::Ipv4Addr;

use super::*;

const NOW: Instant = Instant::from_micros_const(100_000_000);

fn key(remote_port: u16) -> Key {
    Key {
        local: Ipv4Addr::new(10, 0, 2, 15).into(),
        remote: Ipv4Addr::new(10, 0, 2, 2).into(),
        local_port: 80,
        remote_port,
    }
}

const MARKS: Marks = Marks {
    end: TcpSeqNumber(i32::MAX),
    ack: TcpSeqNumber(i32::MIN + 10),
};

/// How much of the sequence the peer's stream takes.
const STREAM_LEN: i32 = 10_000;

fn record(wait: Wait) -> Record {
    Record {
        key: key(1),
        wait,
        sent: MARKS.end,
        began: TcpSeqNumber(MARKS.ack.0.wrapping_sub(STREAM_LEN)),
        awaited: MARKS.ack,
        is_doubted: false,
        expires_at: NOW,
    }
}

/// A segment that begins `offset` behind what is awaited.
fn segment(offset: i32, control: TcpControl, payload: &[u8]) -> TcpRepr<'_> {
    TcpRepr {
        src_port: 1,
        dst_port: 80,
        control,
        seq_number: TcpSeqNumber(MARKS.ack.0.wrapping_add(offset)),
        ack_number: Some(MARKS.end),
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    }
}

#[test]
fn each_segment_has_its_effect_and_its_answer() {
    use Effect::*;
    use Response::*;
    use TcpControl::{Fin, None as Plain, Psh, Rst, Syn};
    let next = TcpSeqNumber(MARKS.ack.0 + 1);
    let cases = [
        (0, Plain, &b""[..], (Keeps, Silence), (Keeps, Silence)),
        (-1, Plain, b"", (Keeps, Challenge), (Keeps, Challenge)),
        (-4, Psh, b"late", (Keeps, Challenge), (Keeps, Challenge)),
        (0, Psh, b"new", (Ends, Reset), (Keeps, Challenge)),
        (-2, Psh, b"both", (Ends, Reset), (Keeps, Challenge)),
        (5, Psh, b"lost", (Keeps, Challenge), (Keeps, Challenge)),
        (0, Fin, b"", (Waits(next), Ack), (Waits(next), Ack)),
        (-4, Fin, b"late", (Waits(next), Ack), (Waits(next), Ack)),
        (0, Fin, b"new", (Ends, Reset), (Keeps, Challenge)),
        (
            -1,
            Fin,
            b"",
            (Keeps, Challenge),
            (Waits(MARKS.ack), Challenge),
        ),
        (0, Rst, b"", (Ends, Silence), (Keeps, Silence)),
        (-1, Rst, b"", (Keeps, Silence), (Keeps, Silence)),
        (1, Rst, b"", (Keeps, Challenge), (Keeps, Silence)),
        (1, Syn, b"", (Doubts, Challenge), (Doubts, Challenge)),
    ];
    for (offset, control, payload, in_fin_wait, in_time_wait) in cases {
        let segment = segment(offset, control, payload);
        assert_eq!(record(Wait::Fin).judge(&segment), in_fin_wait, "{segment}");
        assert_eq!(
            record(Wait::Time).judge(&segment),
            in_time_wait,
            "{segment}"
        );
    }
}

#[test]
fn only_a_newer_opening_segment_reopens_and_only_in_time_wait() {
    let opening = |offset| TcpRepr {
        ack_number: None,
        ..segment(offset, TcpControl::Syn, b"")
    };
    let reopens = |wait, offset| record(wait).judge(&opening(offset)).0 == Effect::Reopens;
    assert!(reopens(Wait::Time, 1));
    assert!(reopens(Wait::Time, 1 << 30));
    assert!(reopens(Wait::Time, i32::MAX));
    assert!(reopens(Wait::Time, i32::MIN));
    assert!(reopens(Wait::Time, -STREAM_LEN - 1));
    assert!(!reopens(Wait::Time, -STREAM_LEN));
    assert!(!reopens(Wait::Time, 0));
    assert!(!reopens(Wait::Time, -1));
    assert!(!reopens(Wait::Fin, 1));
}

#[test]
fn a_peer_that_was_challenged_may_reset_time_wait() {
    let doubted = Record {
        is_doubted: true,
        ..record(Wait::Time)
    };
    let effect = |offset| doubted.judge(&segment(offset, TcpControl::Rst, b"")).0;
    assert_eq!(effect(0), Effect::Ends);
    assert_eq!(effect(-1), Effect::Keeps);
    assert_eq!(effect(1), Effect::Keeps);
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut early = segment(0, TcpControl::Fin, b"");
    early.ack_number = Some(MARKS.end + 1);
    let verdict = record(Wait::Fin).judge(&early);
    assert_eq!(verdict, (Effect::Keeps, Response::Challenge));
    early.ack_number = None;
    let verdict = record(Wait::Fin).judge(&early);
    assert_eq!(verdict, (Effect::Keeps, Response::Silence));
}

#[test]
fn records_are_bounded_in_number_and_the_oldest_gives_way() {
    let mut closing = Closing::new([1, 2], 8);
    for port in 1..=8 {
        assert!(!closing.insert(NOW, key(port), Wait::Fin, None, MARKS));
    }
    for port in 11..=18 {
        assert!(closing.insert(NOW, key(port), Wait::Time, None, MARKS));
        assert_eq!(closing.len(), 8);
    }
    // Half of the places are left to the others.
    assert_eq!(closing.len_of(Wait::Fin), 4);
    for port in [5, 6, 7, 8, 15, 16, 17, 18] {
        assert!(closing.find(NOW, key(port)).is_some(), "{port}");
    }
}

#[test]
fn records_are_bounded_in_time() {
    let mut closing = Closing::new([1, 2], 8);
    closing.insert(NOW, key(1), Wait::Fin, None, MARKS);
    closing.insert(NOW, key(2), Wait::Time, None, MARKS);
    let over = NOW + TIME_WAIT_TIMEOUT;
    assert_eq!(closing.find(over, key(2)), None);
    assert_eq!(closing.find(over, key(1)), Some(Wait::Fin));
    assert_eq!(closing.deadline(), Some(over + EXPIRY_SLACK));
    closing.expire(over);
    assert_eq!((closing.len(), closing.len_of(Wait::Fin)), (1, 1));
    closing.expire(NOW + FIN_WAIT_TIMEOUT);
    assert_eq!((closing.len(), closing.deadline()), (0, None));
}

#[test]
fn a_record_is_small() {
    assert!(size_of::<Record>() <= 64);
}

#[test]
fn the_memory_of_many_records_comes_back() {
    let mut closing = Closing::new([1, 2], 4096);
    for _ in 0..2 {
        for port in 0..2000 {
            closing.insert(NOW, key(port), Wait::Time, None, MARKS);
        }
        assert!(closing.records.capacity() >= 2000);
        let over = NOW + TIME_WAIT_TIMEOUT;
        while !closing.is_empty() {
            closing.expire(over);
        }
        let places = (closing.records.capacity(), closing.index.capacity());
        assert_eq!(places, (0, 0));
    }
}
