//! The two text formats of Prometheus: its own (0.0.4), and OpenMetrics 1.0.
//!
//! Written by hand, for two reasons. The library `prometheus-client` writes OpenMetrics only, but
//! node_exporter's textfile collector and `promtool check metrics` read the older format only. And it has no
//! state sets, and registers metrics that a program counts itself, while these numbers come as a whole from a
//! listing.
//!
//! The formats differ in the names of families (OpenMetrics leaves out `_total` and `_info`), in the types
//! that they know, and in the lines `# UNIT` and `# EOF`. Samples are the same.

use std::fmt::{Display, Write as _};

/// One of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus's own format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Its media type in HTTP.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value that may rise and fall.
    Gauge,
    /// A value that only rises, until what counts it is started again.
    Counter,
    /// Facts, as labels; the value is always 1.
    Info,
    /// One sample for each state: that of the present state is 1, the others are 0.
    StateSet,
}

impl Kind {
    /// The end of the names of its samples.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Kind::Gauge | Kind::StateSet => "",
            Kind::Counter => "_total",
            Kind::Info => "_info",
        }
    }

    /// Its name in a format. The older one has neither facts nor state sets.
    fn word(self, format: Format) -> &'static str {
        match (self, format) {
            (Kind::Counter, _) => "counter",
            (Kind::Info, Format::OpenMetrics) => "info",
            (Kind::StateSet, Format::OpenMetrics) => "stateset",
            _ => "gauge",
        }
    }
}

/// A family of samples.
#[derive(Debug)]
pub(crate) struct Family {
    /// Its name without the end that its type adds.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) kind: Kind,
    /// The unit, which is also at the end of the name; empty for plain numbers.
    pub(crate) unit: &'static str,
    /// The meaning, in a sentence.
    pub(crate) help: &'static str,
}

impl Family {
    /// The name of its samples.
    #[cfg(test)]
    pub(crate) fn sample_name(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }
}

/// Labels of a sample.
pub(crate) type Labels<'a> = [(&'a str, &'a str)];

/// A text that is being written.
#[derive(Debug)]
pub(crate) struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    /// An empty text.
    pub(crate) fn new(format: Format) -> Exposition {
        Exposition {
            format,
            text: String::new(),
        }
    }

    /// Begins a family. Its samples have to follow before another family begins.
    pub(crate) fn begin(&mut self, family: &Family) {
        let suffix = match self.format {
            Format::Prometheus => family.kind.suffix(),
            Format::OpenMetrics => "",
        };
        let (name, word) = (family.name, family.kind.word(self.format));
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {word}");
        if self.format == Format::OpenMetrics && !family.unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {}", family.unit);
        }
        let _ = write!(self.text, "# HELP {name}{suffix} ");
        self.escaped(family.help);
        self.text.push('\n');
    }

    /// Adds a sample of a family.
    pub(crate) fn sample(&mut self, family: &Family, labels: &Labels<'_>, value: impl Display) {
        self.text.push_str(family.name);
        self.text.push_str(family.kind.suffix());
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            self.escaped(value);
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// Escapes what the formats demand in values of labels: the backslash, the quote, the end of a line.
    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                c => self.text.push(c),
            }
        }
    }

    /// The whole text.
    pub(crate) fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKEN: Family = Family {
        name: "taken_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        help: "Bytes that were taken.",
    };
    const LEVEL: Family = Family {
        name: "level",
        kind: Kind::StateSet,
        unit: "",
        help: "How urgent it is.",
    };

    fn written(format: Format) -> String {
        let mut text = Exposition::new(format);
        text.begin(&TAKEN);
        text.sample(&TAKEN, &[("name", "a\\b\"c\nd é")], 7);
        text.sample(&TAKEN, &[("name", "x"), ("user", "root")], u64::MAX);
        text.begin(&LEVEL);
        text.sample(&LEVEL, &[], 1);
        text.end()
    }

    #[test]
    fn each_format_has_its_names_and_types() {
        let samples = [
            "taken_bytes_total{name=\"a\\\\b\\\"c\\nd é\"} 7\n",
            "taken_bytes_total{name=\"x\",user=\"root\"} 18446744073709551615\n",
        ]
        .concat();
        assert_eq!(
            written(Format::Prometheus),
            format!(
                "# TYPE taken_bytes_total counter\n# HELP taken_bytes_total Bytes that were taken.\n{samples}\
                 # TYPE level gauge\n# HELP level How urgent it is.\nlevel 1\n"
            )
        );
        assert_eq!(
            written(Format::OpenMetrics),
            format!(
                "# TYPE taken_bytes counter\n# UNIT taken_bytes bytes\n\
                 # HELP taken_bytes Bytes that were taken.\n{samples}\
                 # TYPE level stateset\n# HELP level How urgent it is.\nlevel 1\n# EOF\n"
            )
        );
    }
}
