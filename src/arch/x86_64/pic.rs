//! The old interrupt controllers, which the firmware leaves running (Intel
//! 8259A datasheet).

use x86_64::instructions::port::Port;

use super::vectors;

/// Command and data port of each.
const CONTROLLERS: [(u16, u16); 2] = [(0x20, 0x21), (0xa0, 0xa1)];

/// Starts an initialization of four words.
const INITIALIZE: u8 = 0x11;
/// What is wired to what: the second at line 2 of the first.
const CASCADE: [u8; 2] = [1 << 2, 2];
const MODE_8086: u8 = 0x01;
const ALL: u8 = 0xff;

/// Masks all their lines, and moves what they may still raise by mistake away
/// from the exceptions' vectors.
pub(super) fn mask() {
    let mut vector = vectors::PIC;
    for ((command, data), cascade) in CONTROLLERS.into_iter().zip(CASCADE) {
        let (mut command, mut data) = (Port::<u8>::new(command), Port::<u8>::new(data));
        // SAFETY: the ports are the controllers' on every PC, and read as
        // nothing elsewhere; with all lines masked they raise nothing.
        unsafe {
            command.write(INITIALIZE);
            data.write(vector);
            data.write(cascade);
            data.write(MODE_8086);
            data.write(ALL);
        }
        vector += 8;
    }
}
