//! Which kind of file system a file is on.
//!
//! `/proc/PID/mountinfo` tells the kind of each device that a process sees. It asks no file system, so
//! one whose server does not answer delays nothing; but a device number may have been given to another
//! file system meanwhile. `fstatfs` tells it of an open file for sure, and may wait for a server.
//! Source: kernel document `proc.rst` 3.5; `statfs(2)`, `linux/magic.h`.

use crate::Result;
use crate::parse::{lines, number, unescape, words};
use crate::process::through;
use crate::reader::read_text;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest text that is read, bytes.
const MAX_MOUNTINFO: usize = 4 << 20;
/// The most devices that are kept.
const MAX_DEVICES: usize = 16_384;
/// The most layers of an overlay that are looked at; the kernel takes 500.
const MAX_LAYERS: usize = 512;
/// The most overlays below another that are looked at.
const MAX_OVERLAYS: usize = 16;

/// On which kinds of file systems the layers of an overlay lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The kinds that are known.
    pub kinds: BTreeSet<String>,
    /// Whether these are all. Not so where an overlay was mounted with relative paths, or is not in the list
    /// of mounts any more.
    pub complete: bool,
}

/// The kind of file system (`ext4`) by device (major, minor).
pub type Kinds = HashMap<(u32, u32), String>;

/// Kinds by `f_type` of `statfs`: those that keep files in memory, those behind a server, and overlay.
const MAGIC: [(u32, &str); 20] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x794c_7630, "overlay"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb3"),
    (0x517b, "smb3"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x0bd0_0bd0, "lustre"),
    (0x2003_0528, "orangefs"),
    (0x786f_4256, "vboxsf"),
    (0x4750_4653, "gpfs"),
];

/// The kind of the file system of an open file, if it is one of those that need care: in memory,
/// behind a server, or an overlay. May wait for a server.
pub fn kind_of(file: impl AsFd) -> Option<&'static str> {
    let status = rustix::fs::fstatfs(file).ok()?;
    // Its type differs between architectures; the numbers have 32 bits.
    let magic = status.f_type as u32;
    let known = MAGIC.iter().find(|(number, _)| *number == magic);
    known.map(|(_, kind)| *kind)
}

/// The kinds of the file systems that a process sees.
///
/// # Errors
/// [`crate::Error::Gone`]; [`crate::Error::Denied`] for other users' processes.
pub fn kinds(pid: i32) -> Result<Kinds> {
    Ok(parse_kinds(&text_of(pid)?))
}

/// The list of mounts that a process sees (`self`: this one).
pub(crate) fn text_of(pid: impl Display) -> Result<Vec<u8>> {
    through(pid, "mountinfo", Vec::is_empty, |path| {
        let mut text = Vec::new();
        read_text(path, MAX_MOUNTINFO, &mut text)?;
        Ok(text)
    })
}

/// Whether `/proc` hides the processes of other users here (`hidepid`); root sees them nevertheless.
pub fn hides_processes() -> bool {
    text_of("self").is_ok_and(|text| parse_hides(&text))
}

/// Parses the mounts for [`hides_processes`]: of several at `/proc` the last one counts.
pub fn parse_hides(text: &[u8]) -> bool {
    let listed = mounts(text);
    let mut at = listed
        .iter()
        .filter(|mount| mount.point.as_os_str() == "/proc");
    let shows = [&b"hidepid=0"[..], b"hidepid=off"];
    at.next_back().is_some_and(|mount| {
        let mut options = mount.options.split(|&b| b == b',');
        options.any(|option| option.starts_with(b"hidepid=") && !shows.contains(&option))
    })
}

/// What the layers of an overlay lie on, which a process sees as this device. As far as their paths tell:
/// those are of the time of the mount, most likely as seen from here.
///
/// # Errors
/// As [`kinds`].
pub fn layers(pid: i32, overlay: (u32, u32)) -> Result<Layers> {
    Ok(parse_layers(&text_of(pid)?, &text_of("self")?, overlay))
}

/// Parses the mounts of a process and ours for [`layers`]. A layer may lie on an overlay itself, so that this
/// goes on there.
pub fn parse_layers(text: &[u8], ours: &[u8], overlay: (u32, u32)) -> Layers {
    let lists = [text, ours].map(mounts);
    let mut found = Layers {
        kinds: BTreeSet::new(),
        complete: true,
    };
    let (mut left, mut known) = (vec![overlay], BTreeSet::from([overlay]));
    while let Some(overlay) = left.pop() {
        let mut all = lists.iter().flatten();
        let mount = all.find(|mount| mount.device == overlay && mount.kind == "overlay");
        let paths: Vec<PathBuf> = layer_paths(mount.map_or(b"", |mount| mount.options))
            .take(MAX_LAYERS + 1)
            .collect();
        found.complete &= (1..=MAX_LAYERS).contains(&paths.len());
        for layer in paths.iter().take(MAX_LAYERS) {
            // In which directory a mount with relative paths was made is told nowhere.
            let nearest = lists.iter().filter_map(|list| nearest_of(list, layer));
            let below: Vec<&Mount<'_>> = nearest.collect();
            found.complete &= !below.is_empty();
            for mount in below {
                found.kinds.insert(mount.kind.clone());
                if mount.kind == "overlay" && known.insert(mount.device) {
                    left.push(mount.device);
                }
            }
        }
        if known.len() > MAX_OVERLAYS {
            found.complete = false;
            return found;
        }
    }
    found
}

/// A line of a list of mounts.
struct Mount<'a> {
    device: (u32, u32),
    kind: String,
    point: PathBuf,
    /// What the file system was mounted with: the last field.
    options: &'a [u8],
}

fn mounts(text: &[u8]) -> Vec<Mount<'_>> {
    let parsed = lines(text).filter_map(|line| {
        let (device, kind) = parse_kind(line)?;
        Some(Mount {
            device,
            kind,
            point: path(words(line).nth(4)?),
            options: words(line).last()?,
        })
    });
    parsed.take(MAX_DEVICES).collect()
}

/// The mount that an absolute path leads to: of several at the same place the last one.
fn nearest_of<'a, 'b>(list: &'b [Mount<'a>], path: &Path) -> Option<&'b Mount<'a>> {
    let above = list.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// The paths of the layers that an overlay was mounted with: `lowerdir=/a:/b`, or each by itself. Two colons
/// come before layers of data.
fn layer_paths(options: &[u8]) -> impl Iterator<Item = PathBuf> + '_ {
    let names: [&[u8]; 4] = [b"lowerdir", b"lowerdir+", b"datadir+", b"upperdir"];
    let values = options.split(|&b| b == b',').filter_map(move |option| {
        let at = option.iter().position(|&b| b == b'=')?;
        names.contains(&&option[..at]).then_some(&option[at + 1..])
    });
    values
        .flat_map(|value| value.split(|&b| b == b':'))
        .filter(|value| !value.is_empty())
        .map(path)
}

fn path(escaped: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&unescape(escaped)))
}

/// Parses the text; lines that make no sense are passed over.
pub fn parse_kinds(text: &[u8]) -> Kinds {
    lines(text)
        .filter_map(parse_kind)
        .take(MAX_DEVICES)
        .collect()
}

/// `36 35 98:0 /root /point options optional... - kind source options`
fn parse_kind(line: &[u8]) -> Option<((u32, u32), String)> {
    let mut fields = words(line);
    let device = fields.nth(2)?;
    let colon = device.iter().position(|&b| b == b':')?;
    let part = |text: &[u8]| u32::try_from(number(text)?).ok();
    let device = (part(&device[..colon])?, part(&device[colon + 1..])?);
    let kind = fields.skip_while(|word| *word != b"-").nth(1)?;
    Some((device, String::from_utf8_lossy(kind).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn devices_have_kinds() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
            23 22 0:21 / /proc rw - proc proc rw\nbroken\n24 22 0:x / /y rw - tmpfs none rw\n";
        let kinds = parse_kinds(text);
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds[&(254, 0)], "ext4");
        assert_eq!(kinds[&(0, 21)], "proc");
        let own = std::process::id() as i32;
        assert!(!super::kinds(own).unwrap().is_empty());
    }

    #[test]
    fn a_proc_that_hides_processes_is_told() {
        let hides = |options: &str| {
            let text = format!(
                "22 1 0:21 / /proc rw - proc proc rw{options}\n23 1 0:5 / /y rw - proc proc rw\n"
            );
            parse_hides(text.as_bytes())
        };
        assert!(hides(",hidepid=2") && hides(",hidepid=invisible,gid=7") && hides(",hidepid=1"));
        assert!(!hides("") && !hides(",hidepid=0") && !hides(",hidepid=off"));
        let twice =
            b"22 1 0:21 / /proc rw - proc proc rw,hidepid=2\n24 1 0:22 / /proc rw - proc proc rw\n";
        assert!(!parse_hides(twice) && !parse_hides(b""));
    }

    #[test]
    fn an_overlay_lies_on_what_its_layers_lie_on() {
        let ours = b"1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 / /mnt rw - nfs4 host:/x rw\n\
            3 1 0:41 / /mnt/in\\040it rw - xfs /dev/vdb rw\n";
        let of = |options: &str| {
            let text = format!("9 8 0:50 / / rw shared:1 - overlay overlay {options}\n");
            let found = parse_layers(text.as_bytes(), ours, (0, 50));
            let rest = (!found.complete).then(|| "?".to_owned());
            let all: Vec<String> = found.kinds.into_iter().chain(rest).collect();
            all.join(" ")
        };
        assert_eq!(
            of("rw,lowerdir=/a:/b,upperdir=/c,workdir=/d"),
            "ext4 overlay"
        );
        assert_eq!(of("rw,lowerdir=/a:/mnt/b"), "ext4 nfs4 overlay");
        assert_eq!(
            of("ro,lowerdir+=/mnt/in\\040it,datadir+=/mnt"),
            "nfs4 overlay xfs"
        );
        assert_eq!(of("rw,lowerdir=/a::/mnt/b"), "ext4 nfs4 overlay");
        // From where a relative path leads is not known: it may be to a server.
        assert_eq!(of("rw,lowerdir=l/short:/mntx,xino=off"), "ext4 overlay ?");
        assert_eq!(of("rw,lowerdir=/a:/b,upperdir=c/diff"), "ext4 overlay ?");
        assert_eq!(of("rw,lowerdir=/a\\134:b"), "ext4 overlay ?");
        assert_eq!(of("rw,lowerdir=l/a:l/b,upperdir=c/diff"), "?");
        assert_eq!(of("rw,lowerdir=.:"), "?");
        assert_eq!(of("rw"), "?");
        let most = vec!["/a"; MAX_LAYERS].join(":");
        assert_eq!(of(&format!("rw,lowerdir={most}")), "ext4 overlay");
        assert_eq!(of(&format!("rw,lowerdir={most}:/mnt")), "ext4 overlay ?");
        let none = parse_layers(ours, ours, (254, 0));
        assert_eq!(none, Layers::default(), "no overlay");
        assert_eq!(parse_layers(b"", b"", (0, 50)), Layers::default());
    }

    #[test]
    fn an_overlay_may_lie_on_an_overlay() {
        let below = |layer: &str| {
            format!(
                "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 / /mnt rw - nfs4 host:/x rw\n\
                 3 1 0:50 / /below rw - overlay overlay ro,lowerdir={layer}:/b\n\
                 4 1 0:51 / /above rw - overlay overlay rw,lowerdir=/below/c\n"
            )
        };
        let of = |layer: &str| parse_layers(below(layer).as_bytes(), b"", (0, 51));
        let kinds = |of: &Layers| of.kinds.iter().cloned().collect::<Vec<_>>().join(" ");
        let (plain, served, relative) = (of("/a"), of("/mnt/a"), of("a"));
        assert_eq!(
            (kinds(&plain).as_str(), plain.complete),
            ("ext4 overlay", true)
        );
        assert!(kinds(&served).contains("nfs4") && served.complete);
        assert!(!relative.complete);
        // One that lies on itself, as it looks from inside of it, and very many.
        assert!(of("/above").complete);
        let many: String = (0..100)
            .map(|n| {
                format!(
                    "9 1 0:{n} / /{n} rw - overlay overlay rw,lowerdir=/{}\n",
                    n + 1
                )
            })
            .collect();
        assert!(!parse_layers(many.as_bytes(), b"", (0, 0)).complete);
    }

    #[test]
    fn an_open_file_has_a_kind() {
        assert_eq!(
            kind_of(std::fs::File::open("/proc/self/stat").unwrap()),
            None
        );
        let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(kind_of(memory), Some("tmpfs"));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_kinds(&text);
            let _ = parse_layers(&text, &text, (0, 0));
        }
    }
}
