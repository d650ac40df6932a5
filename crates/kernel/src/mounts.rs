//! Which mounts a process sees, and which of them are of this machine alone: what is asked about their files
//! reaches no server, and leaves their pages where they are.
//!
//! A file system behind a server (FUSE, network file systems) may pass each question on, answer never, and
//! drop a file's pages when somebody opens it. So nothing is asked of a file, not even `stat(2)` or
//! `statfs(2)`, before `/proc/PID/mountinfo` has told that it is on a kind that is known to need nobody: that
//! list asks no file system.
//! Source: kernel document `proc.rst` 3.5, 3.8; kernel source `fs/fuse/file.c` (`fuse_finish_open`).

mod local;

pub use local::NotLocal;
pub(crate) use local::is_memory;

use crate::Result;
use crate::parse::{lines, number, unescape, words};
use crate::process::{Process, text_through};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Longest text that is read, bytes.
const MAX_MOUNTINFO: usize = 4 << 20;
/// The most mounts that are kept.
const MAX_MOUNTS: usize = 16_384;
/// The most layers of an overlay that are looked at; the kernel takes 500.
const MAX_LAYERS: usize = 512;
/// The most overlays below another that are looked at.
const MAX_OVERLAYS: usize = 16;

/// A device (major, minor).
type Device = (u32, u32);

/// Kinds by `f_type` of `statfs`: those that keep files in memory, and overlay.
const MAGIC: [(u32, &str); 4] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x794c_7630, "overlay"),
];

/// The kind of the file system of an open file, if it keeps files in memory or is an overlay. Asks the file
/// system.
pub fn kind_of(file: impl AsFd) -> Option<&'static str> {
    let status = rustix::fs::fstatfs(file).ok()?;
    // Its type differs between architectures; the numbers have 32 bits.
    let magic = status.f_type as u32;
    let known = MAGIC.iter().find(|(number, _)| *number == magic);
    known.map(|(_, kind)| *kind)
}

/// The mounts that a process sees, and where those do not tell, ours. As they were when they were read: a
/// device number, or the number of a mount, is given to another one later.
#[derive(Debug, Default)]
pub struct Mounts {
    list: Vec<Mount>,
    /// Where in the list a device is.
    devices: HashMap<Device, usize>,
    /// Those that we see, read when they are needed first.
    ours: OnceLock<Box<Mounts>>,
    /// Another user made them.
    of_others: bool,
}

/// A line of a list of mounts.
#[derive(Debug)]
struct Mount {
    id: u64,
    device: Device,
    kind: String,
    point: PathBuf,
    /// The layers of an overlay, and whether they are all that it has.
    layers: Option<(Vec<PathBuf>, bool)>,
    /// Whether it is of this machine alone, once that was asked.
    is_local: OnceLock<std::result::Result<(), NotLocal>>,
}

impl Mounts {
    /// Reads the mounts that a process sees. Asks no file system.
    ///
    /// # Errors
    /// [`crate::Error::Gone`]; [`crate::Error::Denied`] where other users' processes are hidden.
    pub fn of(process: &Process) -> Result<Mounts> {
        Ok(Mounts {
            of_others: are_of_others(process),
            ..Mounts::parse(&text_of(process.pid())?)
        })
    }

    /// Parses the text; lines that make no sense are passed over.
    pub fn parse(text: &[u8]) -> Mounts {
        let list: Vec<Mount> = lines(text)
            .filter_map(parse_mount)
            .take(MAX_MOUNTS)
            .collect();
        let devices = list
            .iter()
            .enumerate()
            .map(|(at, mount)| (mount.device, at));
        Mounts {
            devices: devices.collect(),
            list,
            ..Mounts::default()
        }
    }

    /// The kind of the file system with this device number (`ext4`).
    pub fn kind(&self, device: Device) -> Option<&str> {
        let known = self
            .mount_of(device)
            .or_else(|| self.ours().mount_of(device));
        known.map(|mount| &*mount.kind)
    }

    /// Whether the pages of files with this device number are file pages, which the kernel drops or writes
    /// back, and not memory. False where that is not known. Asks no file system.
    pub fn has_file_pages(&self, device: Device) -> bool {
        let in_memory = ["tmpfs", "ramfs", "hugetlbfs", "devtmpfs", "rootfs"];
        self.kind(device)
            .is_some_and(|kind| !in_memory.contains(&kind))
    }

    fn mount_of(&self, device: Device) -> Option<&Mount> {
        self.list.get(*self.devices.get(&device)?)
    }

    fn ours(&self) -> &Mounts {
        self.ours.get_or_init(|| {
            // Where it cannot be read, nothing more is known.
            let text = text_of("self").unwrap_or_default();
            Box::new(Mounts::parse(&text))
        })
    }
}

/// The list of mounts that a process sees (`self`: this one).
pub(crate) fn text_of(pid: impl Display) -> Result<Vec<u8>> {
    text_through(pid, "mountinfo", MAX_MOUNTINFO, Vec::is_empty)
}

/// Whether a process is in another user namespace than we, of another user: that user may mount there
/// what they like.
fn are_of_others(process: &Process) -> bool {
    let own = rustix::process::geteuid().as_raw();
    !process.shares_users() && process.ids().map_or(true, |ids| ids.uid != own)
}

/// Whether `/proc` hides the processes of other users here (`hidepid`); root sees them nevertheless.
pub fn hides_processes() -> bool {
    text_of("self").is_ok_and(|text| parse_hides(&text))
}

/// Parses the mounts for [`hides_processes`]: of several at `/proc` the last one counts.
pub fn parse_hides(text: &[u8]) -> bool {
    let shows = [&b"hidepid=0"[..], b"hidepid=off"];
    let of_proc = |line: &&[u8]| words(line).nth(4) == Some(b"/proc");
    lines(text).filter(of_proc).last().is_some_and(|line| {
        let mut options = words(line).last().unwrap_or_default().split(|&b| b == b',');
        options.any(|option| option.starts_with(b"hidepid=") && !shows.contains(&option))
    })
}

/// `36 35 98:0 /root /point options optional... - kind source options`
fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = words(line);
    let id = number(fields.next()?)?;
    let device = fields.nth(1)?;
    let colon = device.iter().position(|&b| b == b':')?;
    let part = |text: &[u8]| u32::try_from(number(text)?).ok();
    let device = (part(&device[..colon])?, part(&device[colon + 1..])?);
    let point = path(fields.nth(1)?);
    let kind = fields.by_ref().skip_while(|word| *word != b"-").nth(1)?;
    let layers = (kind == b"overlay").then(|| {
        let paths = layer_paths(fields.last().unwrap_or_default());
        let mut paths: Vec<PathBuf> = paths.take(MAX_LAYERS + 1).collect();
        let are_all = (1..=MAX_LAYERS).contains(&paths.len());
        paths.truncate(MAX_LAYERS);
        (paths, are_all)
    });
    Some(Mount {
        id,
        device,
        kind: String::from_utf8_lossy(kind).into_owned(),
        point,
        layers,
        is_local: OnceLock::new(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn devices_have_kinds() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
            23 22 0:21 / /proc rw - proc proc rw\nbroken\n24 22 0:x / /y rw - tmpfs none rw\n";
        let mounts = Mounts::parse(text);
        assert_eq!(mounts.list.len(), 2);
        assert_eq!(mounts.kind((254, 0)), Some("ext4"));
        assert_eq!(mounts.kind((0, 21)), Some("proc"));
        let pages = |device| mounts.has_file_pages(device);
        assert!(pages((254, 0)) && !pages((0, 99)), "on a disk; not listed");
        let overlay = b"9 8 0:50 / / rw - overlay overlay rw\n8 8 0:51 / /x rw - tmpfs none rw\n";
        let overlay = Mounts::parse(overlay);
        assert!(overlay.has_file_pages((0, 50)) && !overlay.has_file_pages((0, 51)));
        let own = Mounts::of(&Process::own().unwrap()).unwrap();
        assert!(!own.list.is_empty() && !own.of_others);
    }

    /// Mounts of a process beside mounts of ours.
    fn beside(text: &[u8], ours: &[u8]) -> Mounts {
        let mounts = Mounts::parse(text);
        mounts.ours.set(Box::new(Mounts::parse(ours))).unwrap();
        mounts
    }

    /// The kinds that an overlay lies on, and whether there may be more.
    fn layers(mounts: &Mounts, overlay: Device) -> String {
        let found = mounts.layers(mounts.mount_of(overlay).unwrap());
        let rest = (!found.complete).then(|| "?".to_owned());
        let all: Vec<String> = found.kinds.into_iter().chain(rest).collect();
        all.join(" ")
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
            layers(&beside(text.as_bytes(), ours), (0, 50))
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
        assert_eq!(layers(&beside(ours, ours), (254, 0)), "?", "no overlay");
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
        let of = |layer: &str| beside(below(layer).as_bytes(), b"");
        let (plain, served, relative) = (of("/a"), of("/mnt/a"), of("a"));
        assert_eq!(layers(&plain, (0, 51)), "ext4 overlay");
        assert_eq!(plain.check_device((0, 51)), Ok(()));
        assert_eq!(layers(&served, (0, 51)), "ext4 nfs4 overlay");
        let remote = NotLocal::Layer("nfs4".into());
        assert_eq!(served.check_device((0, 51)), Err(remote));
        assert_eq!(relative.check_device((0, 51)), Err(NotLocal::Layers));
        // One that lies on itself, as it looks from inside of it, and very many.
        assert_eq!(of("/above").check_device((0, 51)), Ok(()));
        let many: String = (0..100)
            .map(|n| {
                format!(
                    "9 1 0:{n} / /{n} rw - overlay overlay rw,lowerdir=/{}\n",
                    n + 1
                )
            })
            .collect();
        assert_eq!(
            beside(many.as_bytes(), b"").check_device((0, 0)),
            Err(NotLocal::Layers)
        );
    }

    #[test]
    fn only_kinds_that_are_known_to_be_of_this_machine_are_local() {
        let of = |device: &str, kind: &str| {
            let text = format!("9 8 {device} / / rw - {kind} source rw\n");
            let device = device.split_once(':').unwrap();
            let number = |text: &str| text.parse().unwrap();
            beside(text.as_bytes(), b"").check_device((number(device.0), number(device.1)))
        };
        for kind in ["ext4", "xfs", "vfat", "squashfs", "erofs", "iso9660"] {
            assert_eq!(of("254:7", kind), Ok(()), "{kind}");
            // On no disk, whatever it is called.
            assert_eq!(of("0:7", kind), Err(NotLocal::Kind(kind.into())));
        }
        for kind in ["btrfs", "zfs", "tmpfs"] {
            assert_eq!(of("0:7", kind), Ok(()), "{kind}");
        }
        for kind in ["fuse.sshfs", "nfs4", "9p", "virtiofs", "proc", "neverheard"] {
            assert_eq!(of("0:7", kind), Err(NotLocal::Kind(kind.into())));
        }
        // On a disk, and all the same behind a program.
        assert_eq!(of("8:1", "fuseblk"), Err(NotLocal::Kind("fuseblk".into())));
        let none = beside(b"", b"1 0 254:0 / / rw - ext4 /dev/vda rw\n");
        assert_eq!(none.check_device((254, 0)), Ok(()), "by our own list");
        assert_eq!(none.check_device((254, 1)), Err(NotLocal::Unlisted));
    }

    #[test]
    fn an_overlay_of_another_user_is_not_trusted() {
        let text = b"1 0 254:0 / / rw - ext4 /dev/vda rw\n\
            4 1 0:51 / /above rw - overlay overlay rw,lowerdir=/a:/b\n";
        let mut mounts = beside(text, b"");
        mounts.of_others = true;
        assert_eq!(mounts.check_device((0, 51)), Err(NotLocal::OfOthers));
        assert_eq!(mounts.check_device((254, 0)), Ok(()));
    }

    #[test]
    fn a_path_is_local_when_all_mounts_on_its_way_are() {
        let mounts = beside(
            b"1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 / /srv rw - fuse.x x rw\n\
              3 2 254:1 / /srv/in rw - xfs /dev/vdb rw\n4 1 254:1 / /opt rw - xfs /dev/vdb rw\n",
            b"",
        );
        let at = |path: &str| mounts.check_path(Path::new(path));
        assert_eq!(at("/opt/lib/x.so"), Ok(()));
        assert_eq!(at("/srvx"), Ok(()));
        let served = Err(NotLocal::Kind("fuse.x".into()));
        assert_eq!(at("/srv/in/x.so"), served, "the way leads through it");
        // A root directory that is no mount: its file system is unknown.
        let inner = beside(b"4 1 254:1 / /opt rw - xfs /dev/vdb rw\n", b"");
        let at = inner.check_path(Path::new("/opt/lib"));
        assert_eq!(at, Err(NotLocal::Unlisted));
    }

    #[test]
    fn an_open_file_is_judged_by_its_mount() {
        let mounts = Mounts::of(&Process::own().unwrap()).unwrap();
        let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(mounts.check_open(&memory), Ok(()));
        let proc = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(mounts.check_open(&proc), Err(NotLocal::Kind("proc".into())));
        let (pipe, _end) = rustix::pipe::pipe().unwrap();
        assert_eq!(mounts.check_open(&pipe), Err(NotLocal::Unlisted));
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
            let mounts = Mounts::parse(&text);
            let _ = (mounts.check_device((0, 0)), mounts.check_path(Path::new("/x")));
        }
    }
}
