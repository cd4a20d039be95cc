//! What this processor can do, by CPUID (Intel SDM vol. 2, CPUID).

use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

use x86_64::registers::control::Cr4Flags;

/// CPUID of `leaf`, zeros where the processor does not know the leaf.
pub(super) fn cpuid(leaf: u32) -> CpuidResult {
    let range = leaf & 0xffff_0000;
    if __cpuid(range).eax >= leaf {
        __cpuid_count(leaf, 0)
    } else {
        CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        }
    }
}

/// Whether there are pages of 1 GiB.
pub(super) fn has_gib_pages() -> bool {
    has(cpuid(0x8000_0001).edx, 26)
}

/// Whether the local APIC has an x2APIC mode.
pub(super) fn has_x2apic() -> bool {
    has(cpuid(1).ecx, 21)
}

/// Whether the local APIC's timer takes deadlines in terms of the time-stamp
/// counter.
pub(super) fn has_tsc_deadline() -> bool {
    has(cpuid(1).ecx, 24)
}

/// Whether there is RDRAND.
pub(super) fn has_rdrand() -> bool {
    has(cpuid(1).ecx, 30)
}

/// Whether there is RDSEED.
pub(super) fn has_rdseed() -> bool {
    has(cpuid(7).ebx, 18)
}

/// Whether it is QEMU's emulator, by the name that hypervisors have.
pub(super) fn is_emulated() -> bool {
    let CpuidResult { ebx, ecx, edx, .. } = __cpuid(0x4000_0000);
    let name = [*b"TCGT", *b"CGTC", *b"GTCG"].map(u32::from_le_bytes);
    is_guest() && [ebx, ecx, edx] == name
}

/// Whether the leaves of a hypervisor are there.
fn is_guest() -> bool {
    has(__cpuid(1).ecx, 31)
}

/// The protections that are there to be turned on in `cr4`.
pub(super) fn protections() -> Cr4Flags {
    let (basic, extended) = (cpuid(1), cpuid(7));
    let mut flags = Cr4Flags::empty();
    flags.set(Cr4Flags::MACHINE_CHECK_EXCEPTION, has(basic.edx, 7));
    flags.set(
        Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION,
        has(extended.ebx, 7),
    );
    flags.set(
        Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION,
        has(extended.ebx, 20),
    );
    flags.set(
        Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION,
        has(extended.ecx, 2),
    );
    flags
}

/// Frequencies in Hz that the processor or the hypervisor tells; 0 is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequencies {
    /// Of the time-stamp counter.
    pub(super) tsc: u64,
    /// Of the local APIC's timer, undivided.
    pub(super) apic_timer: u64,
}

/// What CPUID says about frequencies.
pub(super) fn frequencies() -> Frequencies {
    if is_guest() {
        // VMware's leaf, which others have taken over; in kHz.
        let leaf = cpuid(0x4000_0010);
        if leaf.eax != 0 {
            return Frequencies {
                tsc: u64::from(leaf.eax) * 1000,
                apic_timer: u64::from(leaf.ebx) * 1000,
            };
        }
    }
    // The ratio of the time-stamp counter to the crystal, and the crystal's
    // frequency, which also drives the local APIC's timer.
    let CpuidResult {
        eax: denominator,
        ebx: numerator,
        ecx: crystal,
        ..
    } = cpuid(0x15);
    if denominator == 0 || numerator == 0 || crystal == 0 {
        return Frequencies::default();
    }
    let crystal = u64::from(crystal);
    Frequencies {
        tsc: crystal * u64::from(numerator) / u64::from(denominator),
        apic_timer: crystal,
    }
}

fn has(register: u32, bit: u32) -> bool {
    register >> bit & 1 != 0
}
