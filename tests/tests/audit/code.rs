//! Violations in instructions.

use kmod::audit::{MAX_FRAME, Rule};

use super::{Module, asm_function, framed};

#[track_caller]
fn planted(body: &str, rule: Rule) {
    Module::with_asm(&framed(body)).breaks(rule, "(planted)");
}

#[test]
fn bytes_that_are_no_instruction_are_refused() {
    planted(".byte 0x06", Rule::Undecodable);
}

#[test]
fn floating_point_state_is_refused() {
    planted("movaps %xmm0,%xmm1", Rule::FloatingPoint);
    planted("vaddpd %ymm0,%ymm1,%ymm2", Rule::FloatingPoint);
    planted("movq %mm0,%mm1", Rule::FloatingPoint);
    planted("fld1", Rule::FloatingPoint);
    planted("fninit", Rule::FloatingPoint);
    planted("emms", Rule::FloatingPoint);
    planted("ldmxcsr (%rdi)", Rule::FloatingPoint);
    planted("fxsave (%rdi)", Rule::FloatingPoint);
    planted("kmovw %k1,%eax", Rule::FloatingPoint);
}

#[test]
fn fences_and_hints_of_the_sse_sets_are_allowed() {
    let body = "mfence\nlfence\npause\nprefetcht0 (%rdi)\nmovnti %rax,(%rdi)";
    assert_eq!(Module::with_asm(&framed(body)).findings(), []);
}

#[test]
fn store_below_the_stack_pointer_is_refused() {
    planted("mov %rdi,-8(%rsp)", Rule::RedZone);
}

#[test]
fn store_below_the_frame_is_refused() {
    let below = Module::with_asm(&framed("mov %rdi,-16(%rbp)"));
    below.breaks(Rule::RedZone, "16 bytes below %rbp, where the frame has 0");
    let inside = Module::with_asm(&framed("sub $16,%rsp\nmov %rdi,-16(%rbp)\nadd $16,%rsp"));
    assert_eq!(inside.findings(), []);
}

#[test]
fn code_of_no_function_is_checked_too() {
    Module::with_asm(".text\nmov %rdi,-8(%rsp)\nret").breaks(Rule::RedZone, "(code of no function)");
}

#[test]
fn segment_registers_are_refused() {
    planted("mov %fs:0x28,%rax", Rule::Segment);
    planted("mov %gs:0x28,%rax", Rule::Segment);
    planted("swapgs", Rule::Segment);
}

#[test]
fn system_calls_are_refused() {
    planted("syscall", Rule::SystemCall);
    planted("sysenter", Rule::SystemCall);
    planted("int $0x80", Rule::SystemCall);
}

#[test]
fn large_frame_is_refused() {
    planted(&format!("sub ${MAX_FRAME},%rsp\nadd ${MAX_FRAME},%rsp"), Rule::Frame);
    planted("lea -2048(%rsp),%rsp\nlea 2048(%rsp),%rsp", Rule::Frame);
    planted("add $-2048,%rsp\nsub $-2048,%rsp", Rule::Frame);
}

#[test]
fn frame_of_variable_size_is_refused() {
    planted("sub %rdi,%rsp\nmov %rbp,%rsp", Rule::Frame);
}

#[test]
fn call_before_any_frame_pointer_is_refused() {
    let never = asm_function("planted", "sub $8,%rsp\ncall bcopy\nadd $8,%rsp\nret");
    Module::with_asm(&never).breaks(Rule::FramePointer, "planted");
    let late = asm_function(
        "planted",
        "test %rdi,%rdi\nje 1f\npush %rbp\nmov %rsp,%rbp\ncall bcopy\npop %rbp\n1: ret",
    );
    Module::with_asm(&late).breaks(Rule::FramePointer, "planted");
}

#[test]
fn leaf_without_frame_pointer_is_allowed_and_reported() {
    let report = Module::with_asm(&asm_function("leaf", "mov %rdi,%rax\nret")).report();
    assert_eq!(report.findings, []);
    assert_eq!(report.figures.without_frame_pointer, ["leaf"]);
}

#[test]
fn called_probe_is_allowed() {
    let called = Module::with_asm(&framed("call __dtrace_probe_ibd__rx__drop"));
    assert_eq!(called.declaring(&["ibd-rx-drop"]).findings(), []);
}

#[test]
fn probe_that_nobody_declared_is_refused_and_one_that_is_not_there_is_missed() {
    let called = Module::with_asm(&framed("call __dtrace_probe_ibd__rx__drop"));
    called.declaring(&["ibd-tx-drop"]).breaks(Rule::ProbeSite, "ibd-rx-drop is not declared");
    Module::with("")
        .declaring(&["ibd-tx-drop"])
        .breaks(Rule::ProbeSite, "ibd-tx-drop is declared and has no site");
}

#[test]
fn probe_that_is_jumped_to_or_stored_is_refused() {
    let jump = asm_function("planted", "jmp __dtrace_probe_ibd__rx__drop");
    Module::with_asm(&jump).breaks(Rule::ProbeSite, "__dtrace_probe_ibd__rx__drop is not called");
    Module::with_asm(".data\n.quad __dtrace_probe_ibd__rx__drop").breaks(Rule::ProbeSite, ".data+");
}
