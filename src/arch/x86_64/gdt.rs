//! Segments and the task state segment, which names the stacks of exceptions
//! that cannot trust the current one.

use hermit_sync::ExclusiveCell;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

use super::stacks::{DOUBLE_FAULT_STACK, MACHINE_CHECK_STACK, NMI_STACK};

/// The interrupt stack table's entries. No other vector has one: such a stack
/// starts anew at each interrupt, so one that nests would overwrite the first.
#[derive(Clone, Copy, Debug)]
pub(super) enum InterruptStack {
    DoubleFault,
    Nmi,
    MachineCheck,
}

static TSS: ExclusiveCell<TaskStateSegment> = ExclusiveCell::new(TaskStateSegment::new());
static GDT: ExclusiveCell<GlobalDescriptorTable> = ExclusiveCell::new(GlobalDescriptorTable::new());

/// Replaces the boot's segments.
pub(super) fn load() {
    let once = "segments are loaded once";
    let tss = TSS.take().expect(once);
    let mut set = |entry: InterruptStack, top| {
        tss.interrupt_stack_table[entry as usize] = VirtAddr::new(top);
    };
    set(InterruptStack::DoubleFault, DOUBLE_FAULT_STACK.top());
    set(InterruptStack::Nmi, NMI_STACK.top());
    set(InterruptStack::MachineCheck, MACHINE_CHECK_STACK.top());

    let gdt = GDT.take().expect(once);
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let tss = gdt.append(Descriptor::tss_segment(tss));
    let gdt: &'static GlobalDescriptorTable = gdt;
    gdt.load();
    // SAFETY: the selectors are those of the table that was just loaded, which
    // like the task state segment stays as it is for ever.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(data);
        ES::set_reg(data);
        load_tss(tss);
    }
}
