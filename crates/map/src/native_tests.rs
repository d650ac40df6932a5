use super::*;
use crate::memory::Unread;

/// Memory in which blocks of the C library begin at these addresses, with these sizes.
struct Blocks(Vec<(u64, u64)>);

impl Memory for Blocks {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        let block = self.0.iter().find(|block| block.0 == at);
        let (_, size) = block.ok_or(Unread::NotResident)?;
        into[..8].fill(0);
        into[8..16].copy_from_slice(&(size | 2).to_ne_bytes());
        Ok(())
    }
}

fn mapping(start: u64, end: u64, permissions: &str, name: &str) -> Area {
    let has = |letter| permissions.contains(letter);
    Area {
        addresses: start..end,
        readable: has('r'),
        writable: has('w'),
        executable: has('x'),
        shared_mapping: has('s'),
        name: name.into(),
        anonymous: 4096,
        file: FileKey {
            inode: u64::from(name.starts_with('/')) * (1 + name.len() as u64),
            ..FileKey::default()
        },
        ..Area::default()
    }
}

fn kinds(snapshot: &Snapshot, memory: &dyn Memory) -> Vec<Kind> {
    let mut labels = Labels::default();
    label(snapshot, memory, &mut labels);
    let kind = |area: &Area| {
        let at = area.addresses.start;
        let mut labels = labels.labels.iter();
        labels
            .find(|label| label.addresses.contains(&at))
            .unwrap()
            .kind
    };
    snapshot.mappings.iter().map(kind).collect()
}

#[test]
fn names_tell_what_files_are_for() {
    let expected = [
        ("/bin/app (deleted)", "r-xp", Kind::Executable),
        ("/lib/libc.so.6", "r--p", Kind::Libraries),
        ("/opt/addon.node", "r-xp", Kind::Libraries),
        ("/opt/a.JAR", "r--s", Kind::Archives),
        ("/opt/java/lib/modules", "r--s", Kind::Archives),
        (
            "/opt/java/lib/server/classes.jsa",
            "rw-p",
            Kind::ClassArchive,
        ),
        ("/memfd:heap (deleted)", "rw-s", Kind::SharedMemory),
        ("/SYSV00000000 (deleted)", "rw-s", Kind::SharedMemory),
        ("/dev/zero (deleted)", "rw-s", Kind::SharedMemory),
        ("/dev/nvidia0", "rw-s", Kind::Other),
        ("/anon_hugepage (deleted)", "rw-p", Kind::Other),
        ("/usr/lib/locale/locale-archive", "r--p", Kind::Files),
        ("[heap]", "rw-p", Kind::Malloc),
        ("[stack]", "rw-p", Kind::Stacks),
        ("[vdso]", "r-xp", Kind::Other),
        ("[anon: glibc: malloc arena]", "rw-p", Kind::Malloc),
        ("[anon:stack of worker]", "rw-p", Kind::Stacks),
        ("anon_inode:[io_uring]", "rw-s", Kind::Other),
    ];
    let place = |(index, (name, permissions, _)): (usize, &(&str, &str, Kind))| {
        let start = (1 + index as u64) << 24;
        mapping(start, start + 4096, permissions, name)
    };
    let snapshot = Snapshot {
        executable: "/bin/app".into(),
        mappings: expected.iter().enumerate().map(place).collect(),
        ..Snapshot::default()
    };
    let found = kinds(&snapshot, &Blocks(Vec::new()));
    for ((name, _, kind), found) in expected.iter().zip(found) {
        assert_eq!(found, *kind, "{name}");
    }
}

#[test]
fn stacks_are_told_by_their_pointer_or_by_their_size() {
    let guard = |at: u64| mapping(at, at + 0x1000, "---p", "");
    let stack = |at: u64| mapping(at + 0x1000, at + 0x81_000, "rw-p", "");
    let pool = mapping(0x900_0000, 0x980_0000, "rw-p", "");
    let snapshot = Snapshot {
        mappings: vec![
            guard(0x100_0000),
            stack(0x100_0000),
            guard(0x200_0000),
            stack(0x200_0000),
            guard(0x300_0000),
            mapping(0x300_1000, 0x320_0000, "rw-p", ""),
            stack(0x400_0000),
            pool,
        ],
        // The pointer of one thread; the other thread runs.
        stack_pointers: vec![0x104_0000, 7, u64::MAX],
        stack_limit: 0x20_0000,
        ..Snapshot::default()
    };
    let (other, stacks) = (Kind::Other, Kind::Stacks);
    assert_eq!(
        kinds(&snapshot, &Blocks(Vec::new())),
        [other, stacks, other, stacks, other, stacks, other, other]
    );
}

#[test]
fn the_c_librarys_arenas_blocks_and_zeros_are_found() {
    let arena = 0x7f00_0000_0000;
    let block = 0x7e00_0000_0000;
    let snapshot = Snapshot {
        executable: "/bin/app".into(),
        mappings: vec![
            mapping(0x1000, 0x2000, "rw-p", "/bin/app"),
            mapping(0x2000, 0x9000, "rw-p", ""),
            // Two blocks side by side, and something else.
            mapping(block, block + 0x10_0000, "rw-p", ""),
            mapping(block + 0x20_0000, block + 0x30_0000, "rw-p", ""),
            mapping(arena, arena + 0x2_1000, "rw-p", ""),
            mapping(arena + 0x2_1000, arena + ARENA, "---p", ""),
            mapping(arena + ARENA, arena + ARENA + 0x1000, "rw-p", ""),
        ],
        ..Snapshot::default()
    };
    let blocks = Blocks(vec![(block, 0x4_0000), (block + 0x4_0000, 0x5_0000)]);
    assert_eq!(
        kinds(&snapshot, &blocks),
        [
            Kind::Executable,
            Kind::Executable,
            Kind::Malloc,
            Kind::Other,
            Kind::Malloc,
            Kind::Other,
            Kind::Other
        ]
    );
    let mut labels = Labels::default();
    label(&snapshot, &blocks, &mut labels);
    let malloc = labels.labels.iter().filter(|l| l.kind == Kind::Malloc);
    let bytes: u64 = malloc.map(|l| l.addresses.end - l.addresses.start).sum();
    assert_eq!(bytes, 0x9_0000 + 0x2_1000);
    // A size that is no block's ends the search.
    for size in [0, 5, 0x1001, !0xfff, 0x20_0000] {
        assert_eq!(
            kinds(&snapshot, &Blocks(vec![(block, size)]))[2],
            Kind::Other
        );
    }
}

/// Memory that has these ranges only.
struct Bytes(Vec<(u64, Vec<u8>)>);

impl Memory for Bytes {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Unread> {
        let range = |(start, bytes): &&(u64, Vec<u8>)| {
            *start <= at && at + into.len() as u64 <= start + bytes.len() as u64
        };
        let (start, bytes) = self.0.iter().find(range).ok_or(Unread::NotResident)?;
        let from = (at - start) as usize;
        into.copy_from_slice(&bytes[from..from + into.len()]);
        Ok(())
    }
}

fn words(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn bytes_of(snapshot: &Snapshot, memory: &dyn Memory, kind: Kind) -> u64 {
    let mut labels = Labels::default();
    label(snapshot, memory, &mut labels);
    let parts = crate::parts::cut(&snapshot.mappings, &labels.labels);
    let of_kind = parts.iter().filter(|part| part.kind == kind);
    of_kind
        .map(|part| part.addresses.end - part.addresses.start)
        .sum()
}

#[test]
fn heaps_of_arenas_are_told_by_their_heads_where_the_kernel_joined_them() {
    let start = 0x7f00_0000_0000;
    let (second, third) = (start + ARENA, start + 2 * ARENA);
    let end = third + 0x20_0000;
    let snapshot = Snapshot {
        mappings: vec![
            // Something else lies below and above.
            mapping(start - 0x1000, end + 0x1000, "rw-p", ""),
            mapping(end + 0x1000, third + ARENA, "---p", ""),
        ],
        ..Snapshot::default()
    };
    let heads = |changed: Option<(usize, u64)>| {
        let mut of_second = [start + 0x30, start, ARENA, ARENA];
        if let Some((index, word)) = changed {
            of_second[index] = word;
        }
        Bytes(vec![
            (start, words(&[start + 0x30, 0, ARENA, ARENA])),
            (second, words(&of_second)),
            (third, words(&[third + 0x20, 0, 0x10_0000, 0x20_0000])),
        ])
    };
    let malloc = |memory: &Bytes| bytes_of(&snapshot, memory, Kind::Malloc);
    assert_eq!(malloc(&heads(None)), 2 * ARENA + 0x20_0000);
    for changed in [
        // No arena; one in the same heap, which is not the first; one far behind a head; an odd one.
        (0, 0),
        (0, second + 0x30),
        (0, start + 0x2000),
        (0, start + 0x33),
        // No heap before it, though its arena begins elsewhere; one that is none; itself.
        (1, 0),
        (1, start + 0x1000),
        (1, second),
        // Sizes that are none.
        (2, 0),
        (2, 7),
        (2, ARENA + 0x1000),
        (3, ARENA - 0x1000),
        (3, 2 * ARENA),
    ] {
        let found = malloc(&heads(Some(changed)));
        assert_eq!(found, ARENA + 0x20_0000, "{changed:x?}");
    }
    // A heap is not longer than its mapping.
    let mut short = snapshot.clone();
    short.mappings[0].addresses.end = second + 0x1000;
    short.mappings.truncate(1);
    assert_eq!(bytes_of(&short, &heads(None), Kind::Malloc), ARENA);
}

/// The first page of a library with code at 0 and `variables` (address, bytes in memory).
fn library(variables: (u64, u64)) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[0x20] = 64;
    header[0x38] = 2;
    let segment = |flags: u64, (start, size): (u64, u64)| {
        words(&[
            1 | flags << 32,
            0,
            start,
            start,
            size.min(0x800),
            size,
            0x1000,
        ])
    };
    let segments = [segment(5, (0, 0x1000)), segment(6, variables)];
    [header, segments.concat()].concat()
}

#[test]
fn what_lies_above_a_librarys_variables_is_not_the_librarys() {
    let base = 0x7f00_0000_0000;
    let data = Area {
        offset: 0x1000,
        ..mapping(base + 0x2000, base + 0x3000, "rw-p", "/lib/libx.so")
    };
    let snapshot = Snapshot {
        mappings: vec![
            mapping(base, base + 0x1000, "r-xp", "/lib/libx.so"),
            data,
            // Variables up to 0x5000, a large block of malloc, and something else.
            mapping(base + 0x3000, base + 0x8000, "rw-p", ""),
        ],
        ..Snapshot::default()
    };
    let block = (base + 0x5000, words(&[0, 0x2000 | 2]));
    let with = |page: Vec<u8>| Bytes(vec![(base, page), block.clone()]);
    let of = |page, kind| bytes_of(&snapshot, &with(page), kind);
    let usual = library((0x2010, 0x2800));
    assert_eq!(of(usual.clone(), Kind::Libraries), 0x1000 + 0x1000 + 0x2000);
    assert_eq!(of(usual, Kind::Malloc), 0x2000);
    // No variables without a first value: all of it is something else.
    assert_eq!(of(library((0x2010, 0x800)), Kind::Libraries), 0x2000);
    // More than is mapped; no headers that can be understood: all of it is the library's.
    let mut other = library((0x2010, 0x2800));
    other[4] = 1;
    for page in [library((0x2010, 0x1_0000)), other, vec![7; 20]] {
        assert_eq!(of(page, Kind::Libraries), 0x7000);
    }
}
