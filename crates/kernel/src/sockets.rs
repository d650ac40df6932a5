//! The sockets on which a process listens: its descriptors, and the lists of sockets in `/proc/PID/net`,
//! which are those of its network namespace. Source: kernel document `proc_net_tcp.rst`, `proc_pid_net(5)`,
//! `unix(7)`.

use crate::descriptors;
use crate::parse::{hexadecimal, number, word, words};
use crate::process::place;
use crate::reader::read_lines;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The most descriptors of a process that are looked at.
const MAX_DESCRIPTORS: usize = 65_536;
/// The most that is read of a list of sockets, bytes: about 200,000 connections.
const MAX_LIST: u64 = 32 << 20;
/// The state of a socket that listens, in the lists of TCP.
const LISTENS: &[u8] = b"0A";
/// The flag of a UNIX socket that takes connections (`__SO_ACCEPTCON`).
const ACCEPTS: u64 = 1 << 16;

/// Where a process takes connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listens {
    /// At a UNIX socket, by the path that the process gave: below its own root.
    Path(PathBuf),
    /// At a TCP port of its network namespace.
    Tcp(SocketAddr),
}

/// The sockets on which a process takes connections, each once, in order. Those without a path (abstract) are
/// left out.
///
/// # Errors
/// The system's error; `PermissionDenied` where we may not look into the process.
pub fn listening(pid: u32) -> io::Result<BTreeSet<Listens>> {
    let open = descriptors::of(pid)?.take(MAX_DESCRIPTORS);
    let own: BTreeSet<u64> = open
        .filter_map(|open| inode(open.target.as_os_str().as_encoded_bytes()))
        .collect();
    let mut found = BTreeSet::new();
    let mut look = |list: &str, parse: fn(&[u8]) -> Option<(Listens, u64)>| {
        read_lines(&place(pid, list), MAX_LIST, &mut |line| {
            let of_it = parse(line).filter(|(_, inode)| own.contains(inode));
            found.extend(of_it.map(|(listens, _)| listens));
            true
        })
    };
    look("net/unix", of_unix)?;
    look("net/tcp", of_tcp)?;
    // A kernel without IPv6 has no such list.
    match look("net/tcp6", of_tcp) {
        Err(error) if !error.is_absent() => Err(error.into()),
        _ => Ok(found),
    }
}

/// Whether a process has our network, so that its ports are ours. Where its namespace is hidden it counts as
/// ours.
pub fn shares_network(pid: u32) -> bool {
    let of = |path: PathBuf| std::fs::read_link(path).ok();
    let theirs = of(place(pid, "ns/net"));
    theirs.is_none() || theirs == of(place("self", "ns/net"))
}

/// The number of a socket in the kernel's name for a descriptor.
fn inode(target: &[u8]) -> Option<u64> {
    number(target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

/// A line of `net/tcp` or `net/tcp6`: the address of a socket that listens, and its inode.
fn of_tcp(line: &[u8]) -> Option<(Listens, u64)> {
    let mut words = words(line);
    let local = words.nth(1)?;
    (words.nth(1)? == LISTENS).then_some(())?;
    let inode = number(words.nth(5)?)?;
    let colon = local.iter().position(|&byte| byte == b':')?;
    let port = u16::try_from(hexadecimal(&local[colon + 1..])?).ok()?;
    let address = address(&local[..colon])?;
    Some((Listens::Tcp(SocketAddr::new(address, port)), inode))
}

/// An address as the lists have it: words of 32 bits of the address in the network's order, each printed as a
/// number of this machine.
fn address(text: &[u8]) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    let words = text.chunks(8).zip(bytes.chunks_exact_mut(4));
    for (word, to) in words {
        let word = u32::try_from(hexadecimal(word).filter(|_| word.len() == 8)?).ok()?;
        to.copy_from_slice(&word.to_ne_bytes());
    }
    match text.len() {
        8 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        32 => Some(Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

/// A line of `net/unix`: the path of a socket that takes connections, and its inode.
fn of_unix(line: &[u8]) -> Option<(Listens, u64)> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = word(rest)?;
        rest = after;
        Some(word)
    };
    let (_, _, _, flags) = (next()?, next()?, next()?, hexadecimal(next()?)?);
    let (_, _, inode) = (next()?, next()?, number(next()?)?);
    // The path may hold blanks. A name that begins with `@` is no path.
    let path = rest
        .strip_prefix(b" ")
        .filter(|path| path.first().is_some_and(|&byte| byte != b'@'))?;
    let takes = flags & ACCEPTS != 0;
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    takes.then_some((Listens::Path(path), inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn tcp(text: &str) -> Listens {
        Listens::Tcp(text.parse().unwrap())
    }

    #[test]
    fn lines_of_sockets_that_listen_are_read() {
        let head =
            b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
                     timeout inode";
        assert_eq!(of_tcp(head), None);
        let line = |local: &str, state: &str| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000   106        0 \
                 4711 1 0000000000000000 100 0 0 10 0"
            )
        };
        if cfg!(target_endian = "little") {
            let found = of_tcp(line("0100007F:18EB", "0A").as_bytes());
            assert_eq!(found, Some((tcp("127.0.0.1:6379"), 4711)));
            let one = "00000000000000000000000001000000:18EB";
            let found = of_tcp(line(one, "0A").as_bytes());
            assert_eq!(found, Some((tcp("[::1]:6379"), 4711)));
        }
        assert_eq!(of_tcp(line("0100007F:18EB", "01").as_bytes()), None);
        assert_eq!(of_tcp(line("0100007F18EB", "0A").as_bytes()), None);
        assert_eq!(of_tcp(line("0100007:18EB", "0A").as_bytes()), None);
    }

    #[test]
    fn lines_of_unix_sockets_are_read() {
        let line = |flags: &str, inode: &str, path: &str| {
            let line = format!("00000000a1b2: 00000002 00000000 {flags} 0001 01 {inode}{path}");
            of_unix(line.as_bytes())
        };
        let found = line("00010000", "   12", " /run/a  b.sock");
        assert_eq!(found, Some((Listens::Path("/run/a  b.sock".into()), 12)));
        assert_eq!(line("00000000", "12", " /run/a.sock"), None);
        assert_eq!(line("00010000", "12", " @name"), None);
        assert_eq!(line("00010000", "12", ""), None);
        let head = b"Num       RefCount Protocol Flags    Type St Inode Path";
        assert_eq!(of_unix(head), None);
    }

    #[test]
    fn our_own_sockets_are_found_and_connections_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket");
        let _unix = UnixListener::bind(&path).unwrap();
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let _connection = UnixStream::connect(&path).unwrap();
        let found = listening(std::process::id()).unwrap();
        assert!(found.contains(&Listens::Path(path)), "{found:?}");
        assert!(found.contains(&Listens::Tcp(four.local_addr().unwrap())));
        let six = TcpListener::bind("[::1]:0");
        if let Ok(six) = six {
            let found = listening(std::process::id()).unwrap();
            assert!(found.contains(&Listens::Tcp(six.local_addr().unwrap())));
        }
        assert!(shares_network(std::process::id()));
        assert!(listening(0).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (of_tcp(&line), of_unix(&line), inode(&line), address(&line));
        }
    }
}
