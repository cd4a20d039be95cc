//! The virtio network card's queues against the device's side of them: indices
//! that wrap, batches, notifications that are neither lost nor wasted, and a
//! card that breaks the rules.

use std::ops::Range;

use firstpoll::drivers::Error;
use firstpoll::drivers::virtio_net::VirtioNet;
use proptest::prelude::*;

use crate::card_model::{
    EVENT_IDX, FakeTransport, Far, HEADER, MAC, Mood, Queue, RECEIVE, SEND, VERSION_1,
};

/// The places of each queue.
const PLACES: u16 = 256;

/// More frames than an index can count.
const MANY: u32 = 70_000;

type Driver = VirtioNet<FakeTransport>;

/// A card for each way to say when to notify.
const KINDS: [u64; 2] = [VERSION_1 | MAC, VERSION_1 | MAC | EVENT_IDX];

fn start(features: u64) -> (Driver, Far) {
    let (far, transport) = Far::new(features, [PLACES; 2]);
    let card = VirtioNet::new(transport, far.interrupt).expect("the card is good");
    (card, far)
}

fn content(number: u32) -> Vec<u8> {
    let len = 14 + number as usize % 1500;
    let mut content = vec![number as u8; len];
    content[..4].copy_from_slice(&number.to_le_bytes());
    content
}

/// Queues frames, without telling the card.
fn queue_frames(driver: &mut Driver, numbers: Range<u32>) {
    let (_, send) = driver.queues();
    for number in numbers {
        assert!(send.has_room());
        let content = content(number);
        send.buffer(content.len()).copy_from_slice(&content);
        send.commit();
    }
}

/// Takes all frames that came.
fn take_frames(driver: &mut Driver) -> Vec<Vec<u8>> {
    let (receive, _) = driver.queues();
    let mut frames = Vec::new();
    while let Some(frame) = receive.front() {
        frames.push(frame.to_vec());
        receive.release();
    }
    frames
}

fn contents(numbers: Range<u32>) -> Vec<Vec<u8>> {
    numbers.map(content).collect()
}

#[test]
fn all_that_is_offered_and_needed_is_negotiated() {
    for features in KINDS {
        let more = (1 << 28) | (1 << 34) | (1 << 15) | (1 << 14);
        let (_driver, far) = start(features | more);
        assert_eq!(far.card().features, features);
    }
}

#[test]
fn a_card_without_what_is_needed_is_refused() {
    for features in [VERSION_1, MAC, 0] {
        let (far, transport) = Far::new(features, [PLACES; 2]);
        let error = VirtioNet::new(transport, far.interrupt).unwrap_err();
        assert_eq!(error, Error::Unsupported);
    }
    for limits in [[0, 256], [256, 0]] {
        let (far, transport) = Far::new(KINDS[1], limits);
        let error = VirtioNet::new(transport, far.interrupt).unwrap_err();
        assert_eq!(error, Error::Unsupported);
    }
}

#[test]
fn queues_are_as_large_as_the_card_allows() {
    for (limit, places) in [(1, 1), (2, 2), (3, 2), (100, 64), (256, 256), (1024, 256)] {
        for features in KINDS {
            let (far, transport) = Far::new(features, [limit; 2]);
            let mut driver = VirtioNet::new(transport, far.interrupt).unwrap();
            for number in 0..3 * u32::from(places) {
                assert_eq!(far.card().queues[SEND].size, places);
                queue_frames(&mut driver, number..number + 1);
                assert!(far.send(&content(number)), "no buffer, of {places}");
                assert_eq!(take_frames(&mut driver), [content(number)]);
                driver.flush();
                assert_eq!(far.sent(), [content(number)]);
            }
        }
    }
}

#[test]
fn frames_go_both_ways_for_longer_than_an_index_counts() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        let mut number = 0;
        while number < MANY {
            let end = number + 1 + number % 97;
            queue_frames(&mut driver, number..end);
            driver.flush();
            assert_eq!(far.sent(), contents(number..end));
            for number in number..end {
                assert!(far.send(&content(number)), "there is no buffer");
            }
            assert_eq!(take_frames(&mut driver), contents(number..end));
            driver.flush();
            number = end;
        }
        assert_eq!(driver.faults(), 0);
    }
}

#[test]
fn a_card_that_sleeps_is_kicked_once_per_batch() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        let mut number = 0;
        let mut batches = 0;
        while number < MANY {
            let end = number + 1 + number % 256;
            queue_frames(&mut driver, number..end);
            driver.flush();
            driver.flush();
            batches += 1;
            assert_eq!(far.card().kicks[SEND], batches, "after {number} frames");
            assert_eq!(far.sent().len() as u32, end - number);
            number = end;
        }
    }
}

#[test]
fn a_card_that_looks_by_itself_is_not_kicked() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        far.set_mood(SEND, Mood::Busy);
        // The first may pass the index that the card had asked for.
        queue_frames(&mut driver, 0..1);
        driver.flush();
        let kicks = far.card().kicks[SEND];
        for number in 1..60_000 {
            queue_frames(&mut driver, number..number + 1);
            driver.flush();
            assert_eq!(far.sent().len(), if number == 1 { 2 } else { 1 });
        }
        assert_eq!(far.card().kicks[SEND], kicks);
        // It goes to sleep, and is woken.
        far.set_mood(SEND, Mood::Sleeps);
        queue_frames(&mut driver, 0..1);
        driver.flush();
        assert_eq!(far.card().kicks[SEND], kicks + 1);
    }
}

#[test]
fn receive_buffers_are_given_back_in_batches() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        let batch = PLACES / 4;
        let mut kicks = far.card().kicks[RECEIVE];
        assert_eq!(kicks, 1, "the card is told of its first buffers");
        for _ in 0..600 {
            for number in 1..batch {
                assert!(far.send(&content(number.into())));
                take_frames(&mut driver);
                driver.flush();
                assert_eq!(far.card().queues[RECEIVE].waiting(), PLACES - number);
            }
            assert_eq!(far.card().kicks[RECEIVE], kicks);
            assert!(far.send(&content(0)));
            take_frames(&mut driver);
            driver.flush();
            // Without event indices the card cannot say that it has enough.
            kicks += u64::from(features == KINDS[0]);
            assert_eq!(far.card().kicks[RECEIVE], kicks);
            assert_eq!(far.card().queues[RECEIVE].waiting(), PLACES);
        }
    }
}

#[test]
fn a_card_that_ran_out_of_buffers_is_told_of_new_ones_once() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        for round in 1..300 {
            while far.send(&content(0)) {}
            assert_eq!(far.card().kicks[RECEIVE], round);
            assert_eq!(take_frames(&mut driver).len(), PLACES.into());
            driver.flush();
            assert_eq!(far.card().kicks[RECEIVE], round + 1);
        }
    }
}

#[test]
fn sent_buffers_come_back_without_an_interrupt() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        for number in 0..2_000 {
            driver.mask_interrupts();
            queue_frames(&mut driver, number..number + 1);
            driver.flush();
            assert!(!driver.unmask_interrupts());
            far.sent();
        }
        assert_eq!(far.interrupt.count(), 0);
    }
}

#[test]
fn no_interrupt_comes_while_they_are_masked() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        for number in 0..MANY {
            driver.mask_interrupts();
            assert!(far.send(&content(number)));
            assert_eq!(take_frames(&mut driver).len(), 1);
            driver.flush();
        }
        assert_eq!(far.interrupt.count(), 0);
    }
}

#[test]
fn what_came_while_interrupts_were_masked_is_told_when_they_no_longer_are() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        for number in 0..MANY {
            driver.mask_interrupts();
            let before = far.interrupt.count();
            assert!(far.send(&content(number)));
            assert_eq!(far.interrupt.count(), before);
            assert!(driver.unmask_interrupts(), "frame {number} is lost");
            driver.mask_interrupts();
            assert_eq!(take_frames(&mut driver).len(), 1);
            driver.flush();
            // The next one is announced.
            assert!(!driver.unmask_interrupts());
            assert!(far.send(&content(number)));
            assert_eq!(far.interrupt.count(), before + 1, "frame {number} is lost");
            take_frames(&mut driver);
            driver.flush();
        }
    }
}

#[test]
fn a_place_in_a_full_send_queue_is_announced() {
    for features in KINDS {
        let (mut driver, far) = start(features);
        queue_frames(&mut driver, 0..PLACES.into());
        driver.flush();
        for round in 0..300 {
            driver.mask_interrupts();
            assert!(!driver.queues().1.has_room());
            assert!(!driver.unmask_interrupts());
            assert_eq!(far.interrupt.count(), round);
            far.sent_at_most(1);
            assert_eq!(far.interrupt.count(), round + 1);
            queue_frames(&mut driver, 0..1);
            driver.flush();
            // The same, when it was sent before the interrupts came on.
            driver.mask_interrupts();
            assert!(!driver.queues().1.has_room());
            far.sent_at_most(1);
            assert!(!driver.unmask_interrupts(), "there is room again");
            queue_frames(&mut driver, 0..1);
            driver.flush();
        }
    }
}

/// A card that returns something else than it should.
fn lie(features: u64, queue: usize, lie: impl FnOnce(&mut Queue)) {
    let (mut driver, far) = start(features);
    queue_frames(&mut driver, 0..3);
    driver.flush();
    far.sent();
    queue_frames(&mut driver, 3..6);
    assert!(far.send(&content(0)));
    assert_eq!(take_frames(&mut driver).len(), 1);
    driver.flush();
    lie(&mut far.card().queues[queue]);

    let came = take_frames(&mut driver);
    driver.flush();
    driver.flush();
    assert_eq!(driver.faults(), 1);
    assert_eq!(driver.kick_again(), queue == RECEIVE);
    if queue == RECEIVE {
        assert!(came.is_empty());
        assert!(!driver.unmask_interrupts());
        assert_eq!(far.sent(), contents(3..6));
        queue_frames(&mut driver, 6..7);
        driver.flush();
        assert_eq!(far.sent(), [content(6)]);
    } else {
        assert!(!driver.queues().1.has_room());
        assert!(far.send(&content(7)));
        assert_eq!(take_frames(&mut driver), [content(7)]);
    }
}

fn say_used(queue: &mut Queue, by: u16) {
    queue.next_used = queue.next_used.wrapping_add(by);
    // SAFETY: the driver has set the queue up.
    unsafe { Queue::write(queue.used + 2, queue.next_used) };
}

#[test]
fn a_queue_that_runs_ahead_is_stopped() {
    for features in KINDS {
        for by in [4, 255, 256, 257, 32_768, u16::MAX] {
            lie(features, SEND, |queue| say_used(queue, by));
        }
        // It has 255, and returns one as it should.
        for by in [255, 256, 32_768, u16::MAX - 1] {
            lie(features, RECEIVE, |queue| {
                let (id, ..) = queue.take().unwrap();
                queue.give(id.into(), 100);
                say_used(queue, by);
            });
        }
    }
}

#[test]
fn a_buffer_that_the_card_does_not_have_stops_the_queue() {
    for features in KINDS {
        for queue in [RECEIVE, SEND] {
            for id in [256, 0x1_0000, 0x1_0001, u32::MAX] {
                lie(features, queue, |queue| queue.give(id, HEADER as u32));
            }
        }
        // It was never offered: the last ones were.
        lie(features, SEND, |queue| queue.give(0, 0));
        // It was offered, and is returned twice.
        lie(features, SEND, |queue| {
            let (id, ..) = queue.take().unwrap();
            queue.give(id.into(), 0);
            queue.give(id.into(), 0);
        });
    }
}

#[test]
fn a_frame_longer_than_its_buffer_stops_the_queue() {
    for features in KINDS {
        for len in [1537, 65_536 + 20, u32::MAX] {
            lie(features, RECEIVE, |queue| {
                let (id, ..) = queue.take().unwrap();
                queue.give(id.into(), len);
            });
        }
    }
}

#[test]
fn a_frame_shorter_than_its_header_stops_the_queue() {
    for features in KINDS {
        for len in 0..HEADER as u32 {
            lie(features, RECEIVE, |queue| {
                let (id, ..) = queue.take().unwrap();
                queue.give(id.into(), len);
            });
        }
    }
}

/// What driver and card do, in any order.
#[derive(Clone, Copy, Debug)]
enum Act {
    Queue(u32),
    Flush,
    Mask,
    Unmask,
    Take,
    CardSends,
    CardTakes(usize),
    SetMood(Mood),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (1..100_u32).prop_map(Act::Queue),
        Just(Act::Flush),
        Just(Act::Mask),
        Just(Act::Unmask),
        Just(Act::Take),
        Just(Act::CardSends),
        (1..200_usize).prop_map(Act::CardTakes),
        prop_oneof![Just(Mood::Sleeps), Just(Mood::Busy)].prop_map(Act::SetMood),
    ]
}

/// What the two sides count on.
fn no_notification_is_lost(features: u64, acts: Vec<Act>) {
    let (mut driver, far) = start(features);
    let (mut queued, mut flushed, mut sent) = (0, 0, 0);
    let (mut came, mut taken) = (0, 0);
    // Interrupts while the driver sleeps, kicks while the card does.
    let mut driver_sleeps = None;
    let mut card_sleeps = None;
    let mut mood = Mood::Sleeps;
    for act in acts {
        match act {
            Act::Queue(count) => {
                let end = queued + count;
                while queued < end && driver.queues().1.has_room() {
                    queue_frames(&mut driver, queued..queued + 1);
                    queued += 1;
                }
            }
            Act::Flush => {
                driver.flush();
                flushed = queued;
            }
            Act::Mask => {
                driver.mask_interrupts();
                driver_sleeps = None;
            }
            Act::Unmask => {
                let waiting = driver.unmask_interrupts();
                assert!(waiting || came == taken, "a frame was overlooked");
                driver_sleeps = (!waiting).then(|| (far.interrupt.count(), came));
            }
            Act::Take => {
                for frame in take_frames(&mut driver) {
                    assert_eq!(frame, content(taken));
                    taken += 1;
                }
                assert_eq!(taken, came);
                driver_sleeps = None;
            }
            Act::CardSends => came += u32::from(far.send(&content(came))),
            Act::CardTakes(most) => {
                for frame in far.sent_at_most(most) {
                    assert_eq!(frame, content(sent));
                    sent += 1;
                }
            }
            Act::SetMood(new) => {
                far.set_mood(SEND, new);
                mood = new;
            }
        }
        if matches!(act, Act::CardTakes(_) | Act::SetMood(_)) {
            // Before it sleeps it looks once more, as it must.
            let sleeps = mood == Mood::Sleeps && far.card().queues[SEND].waiting() == 0;
            card_sleeps = sleeps.then(|| (far.card().kicks[SEND], flushed));
        }
        if let Some((interrupts, before)) = driver_sleeps {
            let interrupted = far.interrupt.count() > interrupts;
            assert!(interrupted || came == before, "an interrupt was lost");
        }
        if let Some((kicks, before)) = card_sleeps {
            let kicked = far.card().kicks[SEND] > kicks;
            assert!(kicked || flushed == before, "a kick was lost");
        }
    }
    assert_eq!(driver.faults(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_notification_is_lost_in_any_order(
        features in prop_oneof![Just(KINDS[0]), Just(KINDS[1])],
        acts in proptest::collection::vec(act(), 1..300),
    ) {
        no_notification_is_lost(features, acts);
    }
}
