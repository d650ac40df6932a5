//! The arguments of the misbehaving programs.

use plimsoll_kernel::process::page_size;
use std::collections::HashMap;
use std::io;

/// The variant of the test program to run, and its options.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) program: String,
    pub(crate) values: HashMap<String, String>,
    flags: Vec<String>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> io::Result<Options> {
        const FLAGS: [&str; 7] = [
            "lock",
            "huge",
            "read",
            "private",
            "untouched",
            "unpaced",
            "stream",
        ];
        const VALUES: [&str; 15] = [
            "bytes",
            "rate",
            "hold",
            "release-rate",
            "delay",
            "repeat",
            "part",
            "every",
            "path",
            "on",
            "off",
            "depth",
            "width",
            "report",
            "seed",
        ];
        let mut options = Options {
            program: arguments.first().cloned().unwrap_or_default(),
            ..Options::default()
        };
        let mut rest = arguments.iter().skip(1);
        while let Some(argument) = rest.next() {
            let name = argument.strip_prefix("--").unwrap_or_default();
            if FLAGS.contains(&name) {
                options.flags.push(name.to_owned());
            } else if VALUES.contains(&name) {
                let value = rest
                    .next()
                    .ok_or_else(|| io::Error::other(format!("`--{name}` needs a value")))?;
                options.values.insert(name.to_owned(), value.clone());
            } else {
                return Err(io::Error::other(format!("unknown argument `{argument}`")));
            }
        }
        Ok(options)
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }

    pub(crate) fn number(&self, name: &str) -> io::Result<Option<f64>> {
        let Some(text) = self.values.get(name) else {
            return Ok(None);
        };
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 1024.0),
            Some(b'M') => (&text[..text.len() - 1], 1_048_576.0),
            Some(b'G') => (&text[..text.len() - 1], 1_073_741_824.0),
            _ => (text.as_str(), 1.0),
        };
        match digits.parse::<f64>() {
            Ok(n) if n.is_finite() && n >= 0.0 => Ok(Some(n * unit)),
            _ => Err(io::Error::other(format!(
                "`--{name} {text}`: give a number, with K, M or G for a size"
            ))),
        }
    }

    pub(crate) fn bytes(&self) -> io::Result<u64> {
        let bytes = self
            .number("bytes")?
            .ok_or_else(|| io::Error::other("`--bytes` is missing: how much to take"))?;
        let page = page_size();
        Ok((bytes as u64).div_ceil(page).max(1).saturating_mul(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> io::Result<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn sizes_have_units_and_are_whole_pages() {
        let options = parse("hog --bytes 1M --rate 2.5K --lock").unwrap();
        assert_eq!(options.program, "hog");
        assert_eq!(options.bytes().unwrap(), 1 << 20);
        assert_eq!(options.number("rate").unwrap(), Some(2560.0));
        assert_eq!(options.number("hold").unwrap(), None);
        assert!(options.has("lock") && !options.has("huge"));
        let odd = parse("hog --bytes 1").unwrap();
        assert_eq!(odd.bytes().unwrap(), page_size());
    }

    #[test]
    fn what_is_not_known_or_not_a_number_is_told() {
        assert!(parse("hog --byte 1").is_err());
        assert!(parse("hog --bytes").is_err());
        assert!(parse("hog").unwrap().bytes().is_err());
        assert!(parse("hog --bytes -1").unwrap().bytes().is_err());
    }
}
