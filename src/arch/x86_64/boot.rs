//! From the loader to Rust: the PVH entry point and long mode.
//!
//! A PVH loader (QEMU's `-kernel`, Firecracker, Cloud Hypervisor) finds the
//! entry point in an ELF note and enters it in 32-bit protected mode without
//! paging, with the address of the start info in `ebx` (Xen, "x86/HVM direct
//! boot ABI"). The assembly below maps the first 4 GiB, enters long mode and
//! calls Rust on the boot stack; everything else is Rust's.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pvh::start_info::MemmapType;
use pvh::start_info::reader::{IdentityMap, StartInfoReader};

use super::exit::{self, FAILURE_CODE};
use super::memory_map::{Entry, Kind};
use super::paging::{LOW_DIRECTORIES, LOW_GIB, PML4, POINTERS};
use super::stacks::{BOOT_STACK, BootStack};
use super::{clock, console};

pvh::xen_elfnote_phys32_entry!(firstpoll_start);

/// The selectors of [`BOOT_GDT`].
const BOOT_CODE: u16 = 8;
const BOOT_DATA: u16 = 16;

/// Two flat segments for the way into long mode; [`super::gdt`] replaces them.
static BOOT_GDT: [u64; 3] = [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

/// The operand of `lgdt` for [`BOOT_GDT`].
#[repr(C, packed)]
struct GdtPointer {
    limit: u16,
    base: &'static [u64; 3],
}

static BOOT_GDT_POINTER: GdtPointer = GdtPointer {
    limit: size_of::<[u64; 3]>() as u16 - 1,
    base: &BOOT_GDT,
};

/// What the serial port says on a processor that cannot run this kernel.
static NO_LONG_MODE: [u8; NO_LONG_MODE_TEXT.len()] = *NO_LONG_MODE_TEXT;
const NO_LONG_MODE_TEXT: &[u8; 63] =
    b"firstpoll needs a 64-bit processor with no-execute pages (NX)\n\0";

/// CPUID 8000_0001h, `edx`: NX and long mode.
const NX_AND_LONG_MODE: u32 = 1 << 20 | 1 << 29;
/// `cr4.PAE`.
const CR4_PAE: u32 = 1 << 5;
const EFER: u32 = 0xc000_0080;
/// `EFER.LME` and `EFER.NXE`.
const EFER_LONG_MODE_NX: u32 = 1 << 8 | 1 << 11;
/// `cr0.PG` and `cr0.WP`.
const CR0_PAGING_WRITE_PROTECT: u32 = 1 << 31 | 1 << 16;
/// A page table entry that is present and writable; with the third, one that
/// maps a large page.
const TABLE: u32 = 0b11;
const LARGE_PAGE: u32 = TABLE | 1 << 7;
const LARGE_PAGE_BYTES: u32 = 2 << 20;

/// The PVH entry point.
///
/// # Safety
///
/// For the loader only.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn firstpoll_start() -> ! {
    naked_asm!(
        ".code32",
        "cli",
        "cld",
        "rdtsc", // The clock starts here.
        "mov dword ptr [{start}], eax",
        "mov dword ptr [{start} + 4], edx",
        "mov edi, ebx", // The start info; `cpuid` overwrites ebx.
        "mov esp, offset {stack} + {stack_bytes}",

        // Is this a processor for us?
        "mov eax, 0x80000000",
        "cpuid",
        "cmp eax, 0x80000001",
        "jb 3f",
        "mov eax, 0x80000001",
        "cpuid",
        "and edx, {nx_and_long_mode}",
        "cmp edx, {nx_and_long_mode}",
        "jne 3f",

        // Map the first 4 GiB by large pages: 2048 entries in four tables that
        // lie behind each other.
        "mov edx, {large_page}",
        "xor ecx, ecx",
        "2:",
        "mov dword ptr [{directories} + ecx * 8], edx",
        "add edx, {large_page_bytes}",
        "inc ecx",
        "cmp ecx, {gib} * 512",
        "jne 2b",
        "mov edx, offset {directories}",
        "or edx, {table}",
        "xor ecx, ecx",
        "2:",
        "mov dword ptr [{pointers} + ecx * 8], edx",
        "add edx, 4096",
        "inc ecx",
        "cmp ecx, {gib}",
        "jne 2b",
        "mov edx, offset {pointers}",
        "or edx, {table}",
        "mov dword ptr [{pml4}], edx",

        // Enter long mode.
        "mov eax, offset {pml4}",
        "mov cr3, eax",
        "mov eax, cr4",
        "or eax, {pae}",
        "mov cr4, eax",
        "mov ecx, {efer}",
        "rdmsr",
        "or eax, {long_mode_nx}",
        "wrmsr",
        "mov eax, cr0",
        "or eax, {paging}",
        "mov cr0, eax",
        "lgdt [{gdt}]",
        "push {code}",
        "mov eax, offset {start64}",
        "push eax",
        "retf",

        // Say what is missing and end.
        "3:",
        "mov esi, offset {message}",
        "mov dx, {console}",
        "4:",
        "lodsb",
        "test al, al",
        "jz 5f",
        "out dx, al",
        "jmp 4b",
        "5:",
        "mov dx, {exit_port}",
        "mov eax, {failure}",
        "out dx, eax",
        "6:",
        "hlt",
        "jmp 6b",
        ".code64",
        start = sym clock::START,
        stack = sym BOOT_STACK,
        stack_bytes = const size_of::<BootStack>(),
        nx_and_long_mode = const NX_AND_LONG_MODE,
        large_page = const LARGE_PAGE,
        large_page_bytes = const LARGE_PAGE_BYTES,
        directories = sym LOW_DIRECTORIES,
        gib = const LOW_GIB,
        table = const TABLE,
        pointers = sym POINTERS,
        pml4 = sym PML4,
        pae = const CR4_PAE,
        efer = const EFER,
        long_mode_nx = const EFER_LONG_MODE_NX,
        paging = const CR0_PAGING_WRITE_PROTECT,
        gdt = sym BOOT_GDT_POINTER,
        code = const BOOT_CODE,
        start64 = sym start64,
        message = sym NO_LONG_MODE,
        console = const console::PORT,
        exit_port = const exit::PORT,
        failure = const FAILURE_CODE,
    )
}

/// The first 64-bit code: data segments, then Rust on an empty stack.
#[unsafe(naked)]
unsafe extern "C" fn start64() -> ! {
    naked_asm!(
        "mov eax, {data}",
        "mov ds, eax",
        "mov es, eax",
        "mov ss, eax",
        "xor eax, eax",
        "mov fs, eax",
        "mov gs, eax",
        "mov rsp, offset {stack} + {stack_bytes}",
        "mov edi, edi", // The start info's address has 32 bits.
        "xor ebp, ebp", // Backtraces end here.
        "call {start}",
        "ud2",
        data = const BOOT_DATA,
        stack = sym BOOT_STACK,
        stack_bytes = const size_of::<BootStack>(),
        start = sym start,
    )
}

unsafe extern "Rust" {
    /// The runtime's boot, which the program's `entry!` defines.
    fn firstpoll_boot() -> !;
}

/// The start info's address, kept for [`start_info`].
static START_INFO: AtomicU32 = AtomicU32::new(0);

/// The first Rust code.
extern "C" fn start(start_info_address: u32) -> ! {
    START_INFO.store(start_info_address, Relaxed);
    // Fails here rather than later.
    let _ = start_info();
    // SAFETY: `entry!` defines the function with this signature, and the image
    // does not link without it.
    unsafe { firstpoll_boot() }
}

/// What the loader says about the machine.
///
/// # Panics
///
/// Panics if the loader was not a PVH loader.
fn start_info() -> StartInfoReader<'static, IdentityMap> {
    let address = START_INFO.load(Relaxed);
    // SAFETY: the address is what the loader passed. A PVH loader passes a valid
    // one, and the magic number tells whether it was one. The first 4 GiB are
    // mapped where they are, and the heap leaves the structures alone.
    let start_info = unsafe { StartInfoReader::from_paddr_identity(address) };
    start_info.expect("the loader passed no PVH start info")
}

/// The kernel command line as the loader left it.
pub(super) fn command_line() -> &'static [u8] {
    let text = start_info().cmdline();
    text.map(|text| text.to_bytes()).unwrap_or_default()
}

/// The memory map as the loader left it; empty if there is none.
pub(super) fn memory_map() -> impl Iterator<Item = Entry> + Clone {
    let start_info = start_info();
    let has_map = start_info.raw().version >= 1;
    let entries = if has_map { start_info.memmap() } else { &[] };
    entries.iter().map(|entry| Entry {
        start: entry.addr,
        bytes: entry.size,
        kind: match entry.ty() {
            MemmapType::Ram => Kind::Ram,
            _ => Kind::Reserved,
        },
    })
}

/// Where the loader's own structures are that must outlive the boot: the
/// command line. The heap must not reach over it.
pub(super) fn loader_structures() -> [(u64, u64); 4] {
    let start_info = start_info();
    let raw = start_info.raw();
    let text = command_line();
    let entry_bytes = size_of::<pvh::start_info::MemmapTableEntry>() as u64;
    let module_bytes = size_of::<pvh::start_info::ModlistEntry>() as u64;
    [
        (START_INFO.load(Relaxed).into(), size_of_val(raw) as u64),
        (raw.cmdline_paddr, text.len() as u64 + 1),
        (
            raw.memmap_paddr,
            u64::from(raw.memmap_entries) * entry_bytes,
        ),
        (raw.modlist_paddr, u64::from(raw.nr_modules) * module_bytes),
    ]
}
