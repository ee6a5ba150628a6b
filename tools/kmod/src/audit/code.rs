//! The rules about instructions, checked on the disassembly of everything executable.

use std::ops::Range;

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, Mnemonic,
    NasmFormatter, OpKind, Register,
};
use object::elf::{R_X86_64_PC32, R_X86_64_PLT32, SHF_EXECINSTR, STT_FUNC};

use super::imports::PROBE_PREFIX;
use super::{Finding, Report, Rule};
use crate::elf::{Elf, Section};

/// The largest frame allowed, in bytes, saved registers included.
pub const MAX_FRAME: u64 = 1024;

pub(super) fn check(elf: &Elf, image: &[u8], report: &mut Report) {
    for (index, section) in elf.sections.iter().enumerate() {
        if section.is_loaded() && section.flags & SHF_EXECINSTR.0 != 0 {
            let code = image.get(section.contents.clone()).unwrap_or_default();
            for stretch in stretches(elf, index, code.len()) {
                let bytes = &code[stretch.range.clone()];
                Walk::new(section, &stretch).run(bytes, report);
            }
        }
    }
    probe_sites(elf, image, &mut report.findings);
}

/// A function, or what lies between two functions.
struct Stretch {
    name: String,
    range: Range<usize>,
    is_function: bool,
}

/// Cuts an executable section up at its functions. Nothing is left out: code without a symbol runs as well.
fn stretches(elf: &Elf, section: usize, size: usize) -> Vec<Stretch> {
    let here = elf
        .symbols
        .iter()
        .filter(|symbol| symbol.kind == STT_FUNC.0 && usize::from(symbol.section) == section);
    let mut functions: Vec<(usize, usize, String)> = here
        .map(|symbol| {
            let start = usize::try_from(symbol.value).unwrap_or(size).min(size);
            let end = start.saturating_add(usize::try_from(symbol.size).unwrap_or(size)).min(size);
            (start, end, super::readable(&symbol.name))
        })
        .collect();
    functions.sort();

    let mut stretches: Vec<Stretch> = Vec::new();
    let mut covered = 0;
    for (start, end, name) in functions {
        if start > covered {
            stretches.push(between(covered..start));
        }
        // A second name of the same code adds nothing.
        if end > covered {
            stretches.push(Stretch { name, range: start.max(covered)..end, is_function: true });
            covered = end;
        }
    }
    if covered < size {
        stretches.push(between(covered..size));
    }
    stretches
}

fn between(range: Range<usize>) -> Stretch {
    Stretch { name: "code of no function".into(), range, is_function: false }
}

/// The walk over one stretch of code.
struct Walk<'a> {
    section: &'a Section,
    stretch: &'a Stretch,
    frame: FrameUse,
}

/// What a function does with its stack.
#[derive(Default)]
struct FrameUse {
    /// `push %rbp` came before the first jump, call or return.
    pushes_rbp_first: bool,
    /// `mov %rsp,%rbp` was seen: `%rbp` points into the frame.
    rbp_is_frame: bool,
    /// Control has been transferred at least once.
    past_prologue: bool,
    calls: bool,
    /// Bytes of registers pushed in the prologue.
    saved: u64,
    /// Bytes pushed anywhere once `%rbp` pointed into the frame.
    pushed_below_rbp: u64,
    /// The largest amount taken off `%rsp` at once.
    locals: u64,
    /// The deepest access relative to `%rbp`, in bytes below it, and where.
    deepest: Option<(u64, u64)>,
}

impl<'a> Walk<'a> {
    fn new(section: &'a Section, stretch: &'a Stretch) -> Walk<'a> {
        Walk { section, stretch, frame: FrameUse::default() }
    }

    fn run(mut self, bytes: &[u8], report: &mut Report) {
        let start = self.stretch.range.start as u64;
        for instruction in &mut Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
            if let Some(rule) = forbidden(&instruction) {
                report.findings.push(self.finding(rule, &instruction));
            }
            self.track(&instruction, &mut report.findings);
        }
        if self.stretch.is_function {
            self.conclude(report);
        }
    }

    fn at(&self, offset: u64) -> String {
        format!("{}+{offset:#x} ({})", self.section.name, self.stretch.name)
    }

    fn finding(&self, rule: Rule, instruction: &Instruction) -> Finding {
        let mut text = String::new();
        NasmFormatter::new().format(instruction, &mut text);
        Finding::new(rule, format!("{}: {text}", self.at(instruction.ip())))
    }

    fn track(&mut self, instruction: &Instruction, findings: &mut Vec<Finding>) {
        let frame = &mut self.frame;
        match instruction.mnemonic() {
            Mnemonic::Push => {
                frame.pushes_rbp_first |= !frame.past_prologue && instruction.op0_register() == Register::RBP;
                frame.saved += if frame.past_prologue { 0 } else { 8 };
                frame.pushed_below_rbp += if frame.rbp_is_frame { 8 } else { 0 };
            }
            Mnemonic::Mov if instruction.op0_register() == Register::RBP => {
                frame.rbp_is_frame |= instruction.op1_register() == Register::RSP;
            }
            Mnemonic::Call => frame.calls = true,
            _ => (),
        }
        match lowering(instruction) {
            Some(Lowering::By(bytes)) => frame.locals = frame.locals.max(bytes),
            Some(Lowering::Variable) => findings.push(self.finding(Rule::Frame, instruction)),
            None => (),
        }
        let frame = &mut self.frame;
        if instruction.memory_base() == Register::RBP && instruction.memory_index() == Register::None {
            let below = (instruction.memory_displacement64() as i64).min(0).unsigned_abs();
            frame.deepest = frame.deepest.max(Some((below, instruction.ip())));
        }
        frame.past_prologue |= instruction.flow_control() != FlowControl::Next;
    }

    fn conclude(self, report: &mut Report) {
        let name = &self.stretch.name;
        let frame = &self.frame;
        report.figures.functions += 1;
        let size = frame.saved + frame.locals;
        if size > report.figures.largest_frame.0 {
            report.figures.largest_frame = (size, name.clone());
        }
        let start = self.at(self.stretch.range.start as u64);
        if size > MAX_FRAME {
            report
                .findings
                .push(Finding::new(Rule::Frame, format!("{start}: {size} bytes, at most {MAX_FRAME}")));
        }
        if !frame.pushes_rbp_first {
            if frame.calls {
                let what = format!("{start}: calls, but does not push %rbp first");
                report.findings.push(Finding::new(Rule::FramePointer, what));
            }
            report.figures.without_frame_pointer.push(name.clone());
        }
        let room = frame.locals + frame.pushed_below_rbp;
        if let Some((below, ip)) = frame.deepest.filter(|(below, _)| frame.rbp_is_frame && *below > room) {
            let what = format!("{}: {below} bytes below %rbp, where the frame has {room}", self.at(ip));
            report.findings.push(Finding::new(Rule::RedZone, what));
        }
    }
}

/// How an instruction lowers `%rsp`, other than by a push.
enum Lowering {
    By(u64),
    Variable,
}

fn lowering(instruction: &Instruction) -> Option<Lowering> {
    if instruction.op0_kind() != OpKind::Register || instruction.op0_register() != Register::RSP {
        return None;
    }
    let immediate = is_immediate(instruction.op1_kind());
    match instruction.mnemonic() {
        Mnemonic::Sub if immediate => Some(Lowering::By(instruction.immediate(1))),
        Mnemonic::Sub => Some(Lowering::Variable),
        Mnemonic::Add if immediate => by(instruction.immediate(1) as i64),
        Mnemonic::Lea if instruction.memory_base() == Register::RSP => {
            by(instruction.memory_displacement64() as i64)
        }
        _ => None,
    }
}

fn by(raised: i64) -> Option<Lowering> {
    (raised < 0).then(|| Lowering::By(raised.unsigned_abs()))
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(kind, OpKind::Immediate8to64 | OpKind::Immediate32to64)
}

/// The rule that forbids this instruction wherever it stands.
fn forbidden(instruction: &Instruction) -> Option<Rule> {
    if instruction.code() == Code::INVALID {
        return Some(Rule::Undecodable);
    }
    if is_floating_point(instruction) {
        return Some(Rule::FloatingPoint);
    }
    if is_below_rsp(instruction) {
        return Some(Rule::RedZone);
    }
    let touches_memory = (0..instruction.op_count()).any(|op| instruction.op_kind(op) == OpKind::Memory);
    let segment = instruction.segment_prefix();
    if touches_memory && (segment == Register::FS || segment == Register::GS) {
        return Some(Rule::Segment);
    }
    match instruction.mnemonic() {
        Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Sysret | Mnemonic::Sysexit | Mnemonic::Int => {
            Some(Rule::SystemCall)
        }
        Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Some(Rule::SystemCall),
        Mnemonic::Rdfsbase
        | Mnemonic::Wrfsbase
        | Mnemonic::Rdgsbase
        | Mnemonic::Wrgsbase
        | Mnemonic::Swapgs => Some(Rule::Segment),
        _ => None,
    }
}

fn is_floating_point(instruction: &Instruction) -> bool {
    let is_state = |register: Register| {
        register.is_vector_register()
            || register.is_mm()
            || register.is_st()
            || register.is_k()
            || register.is_tmm()
            || register.is_bnd()
    };
    let registers = (0..instruction.op_count()).filter(|op| instruction.op_kind(*op) == OpKind::Register);
    let features = [
        CpuidFeature::FPU,
        CpuidFeature::FPU287,
        CpuidFeature::FPU287XL_ONLY,
        CpuidFeature::FPU387,
        CpuidFeature::FPU387SL_ONLY,
        CpuidFeature::MMX,
        CpuidFeature::FXSR,
        CpuidFeature::XSAVE,
        CpuidFeature::XSAVEC,
        CpuidFeature::XSAVEOPT,
        CpuidFeature::XSAVES,
    ];
    let controls = [Mnemonic::Ldmxcsr, Mnemonic::Stmxcsr, Mnemonic::Vldmxcsr, Mnemonic::Vstmxcsr];
    registers.map(|op| instruction.op_register(op)).any(is_state)
        || is_state(instruction.memory_index())
        || controls.contains(&instruction.mnemonic())
        || instruction.cpuid_features().iter().any(|feature| features.contains(feature))
}

fn is_below_rsp(instruction: &Instruction) -> bool {
    let moves_rsp = instruction.mnemonic() == Mnemonic::Lea && instruction.op0_register() == Register::RSP;
    instruction.memory_base() == Register::RSP
        && (instruction.memory_displacement64() as i64) < 0
        && !moves_rsp
}

/// krtld overwrites the five bytes of a probe site with no-operations; after a `jmp` execution would run on into
/// whatever follows.
fn probe_sites(elf: &Elf, image: &[u8], findings: &mut Vec<Finding>) {
    for relocation in &elf.relocations {
        let name = elf.target(relocation);
        let Some(section) = elf.sections.get(relocation.section) else { continue };
        if !name.starts_with(PROBE_PREFIX) || !section.is_loaded() {
            continue;
        }
        let code = image.get(section.contents.clone()).unwrap_or_default();
        let opcode = usize::try_from(relocation.offset).ok().and_then(|at| code.get(at.checked_sub(1)?));
        let direct = [R_X86_64_PLT32.0, R_X86_64_PC32.0].contains(&relocation.kind);
        if !direct || opcode != Some(&0xe8) {
            let what = format!(
                "{}+{:#x}: {name} is not called but jumped to or read",
                section.name, relocation.offset
            );
            findings.push(Finding::new(Rule::ProbeSite, what));
        }
    }
}
