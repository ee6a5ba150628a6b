//! Which function an address is in, and whether the instruction there is locked.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

use super::watched::Function;

/// Instructions that were run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub instructions: u64,
    pub locked: u64,
}

/// The functions of a driver, by where they begin.
pub(super) struct Code<'a>(BTreeMap<usize, &'a Function>);

impl<'a> Code<'a> {
    pub(super) fn new(functions: &'a [Function]) -> Self {
        Self(functions.iter().map(|function| (function.start, function)).collect())
    }

    /// What was run of each function, by its symbol. What was run elsewhere is left out.
    pub(super) fn count(&self, runs: &BTreeMap<usize, u64>) -> BTreeMap<String, Count> {
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        for (address, times) in runs {
            let Some((name, instruction)) = self.instruction(*address) else { continue };
            let count = counts.entry(name.to_owned()).or_default();
            count.instructions += times;
            count.locked += if is_locked(&instruction) { *times } else { 0 };
        }
        counts
    }

    fn instruction(&self, address: usize) -> Option<(&str, Instruction)> {
        let (start, function) = self.0.range(..=address).next_back()?;
        let code = function.code.get(address - start..).filter(|code| !code.is_empty())?;
        let instruction = Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE).decode();
        Some((&function.name, instruction))
    }
}

/// An exchange with memory is locked without the prefix (Intel's manual, volume 3, 9.1.2.1).
fn is_locked(instruction: &Instruction) -> bool {
    let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg && memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_instructions_are_told_from_others() {
        let code = [
            &[0x90][..],               // nop
            &[0xf0, 0x48, 0xff, 0x00], // lock inc qword [rax]
            &[0x87, 0x07],             // xchg [rdi], eax
            &[0x87, 0xc1],             // xchg ecx, eax
            &[0xf0, 0x0f, 0xb1, 0x0f], // lock cmpxchg [rdi], ecx
            &[0xf3, 0x90],             // pause
        ];
        let starts: Vec<usize> = code
            .iter()
            .scan(0x1000, |at, bytes| {
                let here = *at;
                *at += bytes.len();
                Some(here)
            })
            .collect();
        let function = Function { name: "f".into(), start: 0x1000, code: code.concat() };
        let functions = [function];
        let runs = starts.iter().map(|start| (*start, 10)).chain([(0xfff, 7), (0x2000, 7)]).collect();
        let counts = Code::new(&functions).count(&runs);
        assert_eq!(Vec::from_iter(counts), [("f".into(), Count { instructions: 60, locked: 30 })]);
    }
}
