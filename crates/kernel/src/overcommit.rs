//! How much the kernel lets a process map at once. Source: kernel document
//! `vm/overcommit-accounting.rst`.

use plimsoll_unit::Bytes;
use rustix::fs::{Mode, OFlags};

/// `vm.overcommit_memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overcommit {
    /// 0: only obvious excess is refused.
    Heuristic,
    /// 1: nothing is refused.
    Always,
    /// 2: all promised memory is counted and bounded.
    Never,
}

impl Overcommit {
    /// Parses the text. Anything unknown is the kernel's default, [`Overcommit::Heuristic`].
    pub fn parse(text: &[u8]) -> Overcommit {
        match text.trim_ascii() {
            b"1" => Overcommit::Always,
            b"2" => Overcommit::Never,
            _ => Overcommit::Heuristic,
        }
    }

    /// Reads the present setting. Does not allocate. The default if there is no `/proc`.
    pub fn read() -> Overcommit {
        let path = c"/proc/sys/vm/overcommit_memory";
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut buffer = [0; 16];
        let read = rustix::fs::open(path, flags, Mode::empty())
            .and_then(|file| rustix::io::read(file, &mut buffer));
        Overcommit::parse(&buffer[..read.unwrap_or(0)])
    }
}

/// The largest writable private mapping, disregarding what others are promised. With the
/// heuristic it is all memory plus all swap of the machine. The kernel does not check this for a
/// mapping that is made writable later.
pub fn largest_mapping() -> Bytes {
    if Overcommit::read() != Overcommit::Heuristic {
        return Bytes::MAX;
    }
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit.max(1));
    (Bytes(info.totalram as u64) + Bytes(info.totalswap as u64)) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_the_default() {
        assert_eq!(Overcommit::parse(b"1\n"), Overcommit::Always);
        assert_eq!(Overcommit::parse(b"2"), Overcommit::Never);
        for other in [&b"0\n"[..], b"", b"7\n", b"x"] {
            assert_eq!(Overcommit::parse(other), Overcommit::Heuristic);
        }
    }

    #[test]
    fn a_mapping_may_be_as_large_as_memory() {
        let reader = crate::meminfo::MeminfoReader::open().unwrap();
        assert!(largest_mapping() >= reader.read().unwrap().total);
    }
}
