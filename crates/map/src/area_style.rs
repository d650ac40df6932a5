//! The name and the colour of each area, the same in all tables and pictures.

use crate::area::Kind;

impl Kind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Kind; 20] = [
        Kind::Eden,
        Kind::Survivor,
        Kind::Old,
        Kind::Humongous,
        Kind::Heap,
        Kind::FreeHeap,
        Kind::Metaspace,
        Kind::ClassSpace,
        Kind::CodeCache,
        Kind::Collector,
        Kind::ClassArchive,
        Kind::Archives,
        Kind::Executable,
        Kind::Libraries,
        Kind::Stacks,
        Kind::Malloc,
        Kind::SharedMemory,
        Kind::Files,
        Kind::Other,
        Kind::Unattributed,
    ];

    /// Red, green and blue. Related areas have related colours: greens and blues are the heap,
    /// orange and red are classes and compiled code, browns and teals are files. They can be told
    /// apart on a white page and on a black one.
    pub fn colour(self) -> [u8; 3] {
        match self {
            Kind::Eden => [76, 175, 80],
            Kind::Survivor => [163, 201, 58],
            Kind::Old => [47, 126, 216],
            Kind::Humongous => [88, 86, 214],
            Kind::Heap => [74, 144, 194],
            Kind::FreeHeap => [150, 172, 196],
            Kind::Metaspace => [242, 142, 43],
            Kind::ClassSpace => [240, 185, 60],
            Kind::CodeCache => [225, 87, 89],
            Kind::Collector => [155, 89, 182],
            Kind::ClassArchive => [150, 103, 55],
            Kind::Archives => [201, 166, 107],
            Kind::Executable => [15, 127, 127],
            Kind::Libraries => [32, 178, 170],
            Kind::Stacks => [227, 119, 194],
            Kind::Malloc => [176, 160, 20],
            Kind::SharedMemory => [23, 190, 207],
            Kind::Files => [128, 145, 80],
            Kind::Other => [138, 143, 152],
            Kind::Unattributed => [100, 104, 112],
        }
    }
}
