//! The reports of a misbehaving program.

/// One report of a program, a line of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Monotonic clock, ns.
    pub time_ns: u64,
    /// Bytes that it holds (and touched).
    pub bytes: u64,
    /// Its major faults so far.
    pub major_faults: u64,
    /// Its minor faults so far.
    pub minor_faults: u64,
    /// Processor time of its thread so far, ns.
    pub processor_ns: u64,
    /// Rounds over its memory so far (touchers).
    pub rounds: u64,
    /// Major faults within the rounds of `touch` so far: of memory that it uses all the time.
    pub faults_in_use: u64,
    /// Whether it has reached the requested amount, and holds it.
    pub holding: bool,
}

impl Progress {
    /// One line of JSON.
    pub fn to_json(self) -> String {
        let Progress {
            time_ns,
            bytes,
            major_faults,
            minor_faults,
            processor_ns,
            rounds,
            faults_in_use,
            holding,
        } = self;
        format!(
            "{{\"time_ns\":{time_ns},\"bytes\":{bytes},\"major_faults\":{major_faults},\
             \"minor_faults\":{minor_faults},\"processor_ns\":{processor_ns},\"rounds\":{rounds},\
             \"faults_in_use\":{faults_in_use},\"holding\":{holding}}}"
        )
    }

    /// Reads such a line; what is missing stays 0.
    pub fn parse(line: &str) -> Progress {
        let text = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
            rest.split([',', '}']).next()
        };
        let number = |name: &str| text(name).and_then(|t| t.trim().parse().ok()).unwrap_or(0);
        Progress {
            time_ns: number("time_ns"),
            bytes: number("bytes"),
            major_faults: number("major_faults"),
            minor_faults: number("minor_faults"),
            processor_ns: number("processor_ns"),
            rounds: number("rounds"),
            faults_in_use: number("faults_in_use"),
            holding: text("holding") == Some("true"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn a_line_says_all_of_it_wherever_it_begins() {
        let told = Progress {
            time_ns: 1,
            bytes: 2,
            major_faults: 3,
            minor_faults: 4,
            processor_ns: 5,
            rounds: 6,
            faults_in_use: 7,
            holding: true,
        };
        assert_eq!(Progress::parse(&told.to_json()), told);
        // A test harness may have begun the line.
        let line = format!("test common::program ... {}", told.to_json());
        assert_eq!(Progress::parse(&line), told);
        assert_eq!(Progress::parse("running 1 test"), Progress::default());
    }
}
