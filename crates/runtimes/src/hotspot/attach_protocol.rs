//! The bytes of the attach protocol: requests of both versions, and the reply.

/// A machine's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 0 if the machine did as told. Some failures show only in the text.
    pub code: i32,
    /// Everything after the first line.
    pub text: String,
}

/// A request of version 1, which always has three arguments. `None` if the name (16 bytes) or an
/// argument (1024 bytes) is too long, if there are too many, or if one holds a NUL.
pub fn request_v1(name: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let bad = |s: &str, longest| s.len() > longest || s.contains('\0');
    if bad(name, 16) || arguments.len() > 3 || arguments.iter().any(|a| bad(a, 1024)) {
        return None;
    }
    let mut request = b"1\0".to_vec();
    for i in 0..4 {
        let part = if i == 0 {
            name
        } else {
            arguments.get(i - 1).copied().unwrap_or("")
        };
        request.extend(part.bytes());
        request.push(0);
    }
    Some(request)
}

/// A request of version 2, with any number of arguments of any length. NULs inside arguments are
/// left out.
pub fn request_v2(name: &str, arguments: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in std::iter::once(&name).chain(arguments) {
        body.extend(part.bytes().filter(|&b| b != 0));
        body.push(0);
    }
    let mut request = format!("2\0{}\0", body.len()).into_bytes();
    request.extend(body);
    request
}

/// Parses a reply; `None` if its first line is not a number.
pub fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(bytes.len());
    let code = std::str::from_utf8(&bytes[..end])
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let text = String::from_utf8_lossy(bytes.get(end + 1..).unwrap_or(&[])).into_owned();
    Some(Reply { code, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_have_the_form_of_their_version() {
        assert_eq!(
            request_v1("jcmd", &["GC.run"]).unwrap(),
            b"1\0jcmd\0GC.run\0\0\0"
        );
        assert_eq!(
            request_v2("setflag", &["A", "1"]),
            b"2\x0012\0setflag\0A\x001\0"
        );
    }

    #[test]
    fn what_does_not_fit_version_1_is_refused() {
        assert!(request_v1("a-name-of-17-byte", &[]).is_none());
        assert!(request_v1("jcmd", &[&"x".repeat(1025)]).is_none());
        assert!(request_v1("jcmd", &["", "", "", ""]).is_none());
        assert!(request_v1("jcmd", &["a\0b"]).is_none());
    }

    #[test]
    fn replies_are_read_tolerantly() {
        assert_eq!(
            parse(b"0\nyes\n").unwrap(),
            Reply {
                code: 0,
                text: "yes\n".into()
            }
        );
        assert_eq!(parse(b"-1").unwrap().code, -1);
        assert_eq!(parse(b"0\n\xff").unwrap().text, "\u{fffd}");
        assert!(parse(b"").is_none());
        assert!(parse(b"yes\n0").is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&bytes);
        }
    }
}
