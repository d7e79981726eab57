//! A program that makes system calls as it is told, written by hand: it needs neither a compiler here nor anything but the kernel in
//! the sandbox, so that no sandbox can be left untried for want of a language.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// An argument of a system call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Argument {
    Is(u64),
    /// The process that started the program, which belongs to the same user.
    Parent,
}

/// A system call to try.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: &'static str,
    number: i64,
    arguments: Vec<Argument>,
}

impl Call {
    pub(super) fn new(name: &'static str, number: i64, arguments: &[i64]) -> Self {
        let arguments = arguments.iter().map(|argument| Argument::Is(*argument as u64)).collect();
        Self { name, number, arguments }
    }

    /// The same, with the parent's number in place of an argument.
    pub(super) fn at_parent(mut self, argument: usize) -> Self {
        self.arguments[argument] = Argument::Parent;
        self
    }
}

/// Writes a program that makes the calls one after the other until one gives anything but `EPERM` or `ENOSYS`. Its exit code is
/// the number of that one, from 1 on, or 0.
pub(super) fn write_program(at: &Path, calls: &[Call]) {
    assert!(calls.len() < 126, "an exit code names one");
    let arch = std::env::consts::ARCH;
    assert_eq!(
        arch, "x86_64",
        "the machine code of system calls is written for x86_64 only: write it for {arch}"
    );
    fs::write(at, executable(&code(calls))).unwrap();
    fs::set_permissions(at, PermissionsExt::from_mode(0o755)).unwrap();
}

const EXIT: [u8; 7] = [0xb8, 60, 0, 0, 0, 0x0f, 0x05];

fn code(calls: &[Call]) -> Vec<u8> {
    // mov $getppid, %eax; syscall; mov %rax, %r12
    let mut code = vec![0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0x49, 0x89, 0xc4];
    for (number, call) in (1_u32..).zip(calls) {
        // mov $argument, %register, or mov %r12, %register
        let registers = [
            ([0x48, 0xbf], [0x4c, 0x89, 0xe7]),
            ([0x48, 0xbe], [0x4c, 0x89, 0xe6]),
            ([0x48, 0xba], [0x4c, 0x89, 0xe2]),
            ([0x49, 0xba], [0x4d, 0x89, 0xe2]),
            ([0x49, 0xb8], [0x4d, 0x89, 0xe0]),
            ([0x49, 0xb9], [0x4d, 0x89, 0xe1]),
        ];
        let all = call.arguments.iter().copied().chain(std::iter::repeat(Argument::Is(0)));
        for ((constant, parent), argument) in registers.into_iter().zip(all) {
            match argument {
                Argument::Is(value) => {
                    code.extend(constant);
                    code.extend(value.to_le_bytes());
                }
                Argument::Parent => code.extend(parent),
            }
        }
        // mov $number, %rax; syscall
        code.extend([0x48, 0xb8]);
        code.extend(call.number.to_le_bytes());
        code.extend([0x0f, 0x05]);
        // cmp $-EPERM, %rax; je next; cmp $-ENOSYS, %rax; je next
        code.extend([0x48, 0x83, 0xf8, 0xff, 0x74, 0x12, 0x48, 0x83, 0xf8, 0xda, 0x74, 0x0c]);
        // mov $number, %edi; mov $exit, %eax; syscall
        code.push(0xbf);
        code.extend(number.to_le_bytes());
        code.extend(EXIT);
    }
    // xor %edi, %edi; mov $exit, %eax; syscall
    code.extend([0x31, 0xff]);
    code.extend(EXIT);
    code
}

/// An ELF file with one segment.
fn executable(code: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const AT: u64 = 0x40_0000;
    let size = HEADERS + code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let halves = |file: &mut Vec<u8>, halves: &[u16]| {
        halves.iter().for_each(|half| file.extend(half.to_le_bytes()));
    };
    let words = |file: &mut Vec<u8>, words: &[u32]| {
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
    };
    let longs = |file: &mut Vec<u8>, longs: &[u64]| {
        longs.iter().for_each(|long| file.extend(long.to_le_bytes()));
    };
    // An executable for x86_64, version 1; where it begins; where the headers of segments and sections are.
    halves(&mut file, &[2, 62]);
    words(&mut file, &[1]);
    longs(&mut file, &[AT + HEADERS, 64, 0]);
    // Flags; the sizes of this header and of one of a segment, of which there is one; no sections.
    words(&mut file, &[0]);
    halves(&mut file, &[64, 56, 1, 0, 0, 0]);
    // A segment to load that can be read and executed: the whole file.
    words(&mut file, &[1, 5]);
    longs(&mut file, &[0, AT, AT, size, size, 0x1000]);
    file.extend(code);
    file
}
