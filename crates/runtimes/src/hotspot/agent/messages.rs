//! The messages to the user about an agent: what it does, and later what it does no longer.

use plimsoll_wire::collections::{Signal, View};
use tracing::info;

/// The most changes that are told: a page is the program's, which may write anything.
const MAX_CHANGES: u32 = 16;

/// The news that was told of one machine's agent.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// How it reads stalls; `None` until anything was told.
    signal: Option<Signal>,
    /// Why nothing is given back, as told last.
    refusal: Option<String>,
    changes: u32,
}

impl Told {
    /// Tells the user what is new on the page of this process. `kept`: why nothing is given back whatever the
    /// page says.
    pub(crate) fn look(&mut self, pid: u32, view: &View<'_>, kept: Option<&str>) {
        for line in self.news(view, kept) {
            info!("process {pid} {line}");
        }
    }

    fn news(&mut self, view: &View<'_>, kept: Option<&str>) -> Vec<String> {
        let about = view.about();
        let refusal = view.refusal().or(kept.map(str::to_owned));
        let signal = about.signal_text;
        let Some(before) = self.signal.replace(about.signal) else {
            let back = match &refusal {
                None => "free heap is given back".to_owned(),
                Some(why) => format!("free heap is not given back: {why}"),
            };
            self.refusal = refusal;
            return vec![format!("has the agent; stalls by {signal}; {back}")];
        };
        let mut news = Vec::new();
        if before != about.signal {
            news.push(format!(
                "has an agent that reads stalls by another source now: {signal}"
            ));
        }
        // Without one, the page may have been in use at this moment.
        if let Some(why) = refusal.filter(|why| self.refusal.as_ref() != Some(why)) {
            news.push(format!(
                "has an agent that gives no free heap back any more: {why}"
            ));
            self.refusal = Some(why);
        }
        news.truncate((MAX_CHANGES - self.changes) as usize);
        self.changes += news.len() as u32;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_wire::collections::{About, SIZE, Words, Writer};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn what_changes_on_a_page_is_told_once() {
        let page: [AtomicU64; SIZE / 8] = std::array::from_fn(|_| AtomicU64::new(0));
        let words = Words::of(&page);
        let about = About {
            signal: Signal::Delays,
            signal_text: "delay accounting".into(),
            ..About::default()
        };
        let (mut writer, mut process) = Writer::new(words, &about);
        let mut told = Told::default();
        let mut news = || told.news(&View::new(words).unwrap(), None).join("\n");
        let first = "has the agent; stalls by delay accounting; free heap is given back";
        assert_eq!(news(), first);
        assert_eq!(news(), "");
        writer.refuse("it is locked");
        assert!(news().ends_with("gives no free heap back any more: it is locked"));
        assert_eq!(news(), "", "once");
        writer.refuse("");
        assert_eq!(news(), "");
        writer.refuse("it is locked");
        assert_eq!(news(), "", "it is no other reason");
        writer.refuse("a panic");
        process.signal(Signal::MajorFaults, "major faults; closed");
        let both = news();
        assert!(both.contains("now: major faults; closed\n"), "{both}");
        assert!(both.ends_with("any more: a panic"), "{both}");
        // A program that writes without end is not listened to without end.
        let changes = (0..100).filter(|index| {
            writer.refuse(&index.to_string());
            !news().is_empty()
        });
        assert_eq!(changes.count(), MAX_CHANGES as usize - 3);
    }

    #[test]
    fn a_refusal_that_is_there_at_first_is_told_with_the_rest() {
        let page: [AtomicU64; SIZE / 8] = std::array::from_fn(|_| AtomicU64::new(0));
        let words = Words::of(&page);
        let (mut writer, _) = Writer::new(words, &About::default());
        writer.refuse("no tables");
        let mut told = Told::default();
        let news = told.news(&View::new(words).unwrap(), None).join("\n");
        assert!(
            news.ends_with("free heap is not given back: no tables"),
            "{news}"
        );
        assert!(told.news(&View::new(words).unwrap(), None).is_empty());
        writer.refuse("");
        let kept = Some("its user keeps it");
        let first = Told::default().news(&View::new(words).unwrap(), kept);
        assert!(first[0].ends_with("not given back: its user keeps it"));
    }
}
