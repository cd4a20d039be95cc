//! Makes the mistake that the option `fault=` names, and must not survive it.

#![no_std]
#![no_main]

use core::arch::asm;
use core::hint::black_box;
use core::ptr;

use firstpoll::runtime::{ExitStatus, Runtime};
use firstpoll::{arch, executor, println, time};

firstpoll::entry!(main, options: ["fault"]);

static CONSTANT: u64 = 1;
static mut VARIABLE: u64 = 0xc3; // `ret`, were it code.

fn main(runtime: Runtime) -> ExitStatus {
    let fault = runtime.args().get("fault").unwrap_or_default();
    println!("making the mistake `{fault}`");
    // SAFETY: none; each of these is meant to fault.
    unsafe {
        match fault {
            "read-null" => {
                black_box(ptr::null::<u64>().read_volatile());
            }
            "call-null" => asm!("xor eax, eax", "call rax", out("rax") _),
            "write-text" => (main as *mut u8).write_volatile(0),
            "write-constant" => (&raw const CONSTANT).cast_mut().write_volatile(2),
            "execute-data" => asm!("call {}", in(reg) &raw mut VARIABLE),
            "execute-stack" => {
                let code = [0xc3u8; 16];
                asm!("call {}", in(reg) &raw const code);
            }
            "divide" => asm!("div {0:e}", in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _),
            "opcode" => asm!("ud2"),
            "breakpoint" => asm!("int3"),
            "address" => asm!("mov rax, [{}]", in(reg) 1u64 << 62, out("rax") _),
            "nmi" => asm!("int 2"),
            "stack" => {
                black_box(dig(black_box(0)));
            }
            "masked-stack" => {
                let _masked = arch::mask_interrupts();
                black_box(dig(black_box(0)));
            }
            "bottom-half-stack" => overflow_the_bottom_half(),
            "uncommitted" => touch_uncommitted(),
            _ => println!("unknown"),
        }
    }
    println!("survived");
    ExitStatus::FAILURE
}

/// Recurses until there is no more stack.
#[expect(unconditional_recursion)]
#[inline(never)]
fn dig(depth: u64) -> u64 {
    let level = black_box([depth; 64]);
    dig(black_box(depth + 1)) + level[0]
}

/// Writes past the page of reserved memory that there is memory for.
fn touch_uncommitted() {
    let mut memory = arch::ReservedMemory::new(4).expect("there are addresses");
    memory.commit(1).expect("there is memory");
    // SAFETY: none; the second write is meant to fault.
    unsafe {
        let page = memory.start().add(arch::PAGE_BYTES);
        page.write_bytes(1, arch::PAGE_BYTES);
        println!("wrote where memory is");
        page.add(arch::PAGE_BYTES).write_volatile(1);
    }
}

/// Digs in an interrupt-safe task while the program computes.
fn overflow_the_bottom_half() {
    let task = async {
        time::sleep(time::Duration::from_millis(1)).await;
        black_box(dig(black_box(0)));
    };
    // SAFETY: it touches nothing but its stack.
    unsafe { executor::spawn_interrupt_safe(task) }.detach();
    firstpoll::block_on(firstpoll::yield_now());
    let start = time::Instant::now();
    while start.elapsed() < time::Duration::from_secs(5) {}
}
