//! The real-time clock, which knows the date (Motorola MC146818A datasheet).

use core::time::Duration;

use x86_64::instructions::port::Port;

use super::calendar::Registers;
use super::{InterruptMutex, now};

const INDEX: u16 = 0x70;
const DATA: u16 = 0x71;

const SECONDS: u8 = 0;
const MINUTES: u8 = 2;
const HOURS: u8 = 4;
const DAY: u8 = 7;
const MONTH: u8 = 8;
const YEAR: u8 = 9;
const STATUS_A: u8 = 10;
const STATUS_B: u8 = 11;

/// The clock is about to change its registers, or does it.
const UPDATE_IN_PROGRESS: u8 = 1 << 7;

/// Longer than any update takes, which is 2 ms.
const PATIENCE: Duration = Duration::from_millis(10);
/// And at least so many looks, as a virtual machine may stand still for longer.
const MIN_LOOKS: u32 = 100;

/// The two ports belong together.
static PORTS: InterruptMutex<(Port<u8>, Port<u8>)> =
    InterruptMutex::new((Port::new(INDEX), Port::new(DATA)));

/// The time since the beginning of 1970, to the second, if the clock runs and
/// has a date between 2000 and 2099.
pub fn wall_clock() -> Option<Duration> {
    let deadline = now() + PATIENCE;
    let mut last = None;
    let mut looks = 0;
    while looks < MIN_LOOKS || now() < deadline {
        looks += 1;
        // The same twice, with no update in between.
        let registers = (read(STATUS_A) & UPDATE_IN_PROGRESS == 0).then(registers);
        if registers.is_some() && registers == last {
            return registers?.unix_seconds().map(Duration::from_secs);
        }
        last = registers;
    }
    None
}

fn registers() -> Registers {
    Registers {
        second: read(SECONDS),
        minute: read(MINUTES),
        hour: read(HOURS),
        day: read(DAY),
        month: read(MONTH),
        year: read(YEAR),
        status_b: read(STATUS_B),
    }
}

fn read(register: u8) -> u8 {
    let (index, data) = &mut *PORTS.lock();
    // SAFETY: the ports are the clock's on every PC, and read as ones elsewhere;
    // reading these registers changes nothing. The index port's top bit, which
    // masks non-maskable interrupts, stays clear.
    unsafe {
        index.write(register);
        data.read()
    }
}
