//! Rules: what a program gets because of where it runs, who runs it and what it is.

use super::names::uid_of;
use serde::Deserialize;

/// One `[[rule]]`. All conditions that are given must hold; a rule needs at least one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Glob over the cgroup's path under the mount (`/user.slice/*`).
    pub cgroup: Option<String>,
    /// Glob over the systemd unit's name (`postgresql.service`).
    pub unit: Option<String>,
    /// A user's name or number.
    pub user: Option<String>,
    /// Glob over the executable's path (`*/java`).
    pub executable: Option<String>,
    /// 1 to 10000.
    pub weight: Option<i64>,
    /// -100 to 100.
    pub priority: Option<i64>,
    /// The adapter that `plimsoll` brings (`hotspot`, `libgc`, `none`).
    pub adapter: Option<String>,
    /// `user`, resolved when the file was read.
    #[serde(skip)]
    pub(super) uid: Option<u32>,
}

/// What rules look at.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Path of its cgroup under the mount; memory controller's hierarchy first.
    pub cgroup: String,
    /// Name of the systemd unit that it sits in, empty when none.
    pub unit: String,
    /// Real user.
    pub uid: u32,
    /// Path of its executable, empty when unreadable.
    pub executable: String,
}

/// What the rules gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// A weight.
    pub weight: Option<u32>,
    /// A priority.
    pub priority: Option<i32>,
    /// An adapter.
    pub adapter: Option<String>,
}

impl Given {
    pub(super) fn fill(&mut self, rule: &Rule) {
        let weight = rule.weight.and_then(|weight| u32::try_from(weight).ok());
        let priority = rule
            .priority
            .and_then(|priority| i32::try_from(priority).ok());
        self.weight = self.weight.or(weight);
        self.priority = self.priority.or(priority);
        if self.adapter.is_none() {
            self.adapter.clone_from(&rule.adapter);
        }
    }
}

impl Rule {
    /// Whether every given condition holds.
    #[must_use]
    pub fn matches(&self, facts: &Facts) -> bool {
        let glob = |pattern: &Option<String>, text: &str| {
            pattern
                .as_deref()
                .is_none_or(|pattern| matches_glob(pattern, text))
        };
        glob(&self.cgroup, &facts.cgroup)
            && glob(&self.unit, &facts.unit)
            && glob(&self.executable, &facts.executable)
            && self.uid.is_none_or(|uid| uid == facts.uid)
    }

    /// Checks what serde cannot, and resolves the user.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if let Some(weight) = self.weight.filter(|weight| !(1..=10_000).contains(weight)) {
            return Err(format!("weight {weight} is out of range: give 1 to 10000"));
        }
        if let Some(priority) = self
            .priority
            .filter(|priority| !(-100..=100).contains(priority))
        {
            return Err(format!(
                "priority {priority} is out of range: give -100 to 100"
            ));
        }
        if let Some(adapter) = &self.adapter {
            plimsoll_wire::checks::adapter(adapter).map_err(|error| error.message)?;
        }
        if self.cgroup.is_none()
            && self.unit.is_none()
            && self.user.is_none()
            && self.executable.is_none()
        {
            return Err(
                "a rule without a condition: add `executable`, `unit`, `user` or `cgroup` \
                        (`executable = \"*\"` matches every program)"
                    .into(),
            );
        }
        if self.weight.is_none() && self.priority.is_none() && self.adapter.is_none() {
            return Err("a rule that gives nothing: add `weight`, `priority` or `adapter`".into());
        }
        if let Some(user) = &self.user {
            let uid = uid_of(user).ok_or_else(|| {
                format!(
                    "no user is called `{}`: give a name that `getent passwd` lists, or a number",
                    user.escape_debug()
                )
            })?;
            self.uid = Some(uid);
        }
        Ok(())
    }
}

/// Whether `text` matches `pattern`: `*` stands for any run of bytes (also `/`), `?` for one byte.
/// Linear but for backtracking to the last star, so at most `pattern x text` steps.
#[must_use]
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_like_a_shell_but_over_slashes() {
        for (pattern, text, expect) in [
            ("*/java", "/usr/lib/jvm/bin/java", true),
            ("*/java", "/usr/bin/javac", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbx", false),
        ] {
            assert_eq!(
                matches_glob(pattern, text),
                expect,
                "{pattern} against {text}"
            );
        }
    }

    #[test]
    fn a_rule_needs_every_condition() {
        let rule = Rule {
            executable: Some("*/java".into()),
            uid: Some(1000),
            weight: Some(5),
            ..Rule::default()
        };
        let mut facts = Facts {
            executable: "/bin/java".into(),
            uid: 1000,
            ..Facts::default()
        };
        assert!(rule.matches(&facts));
        facts.uid = 1001;
        assert!(!rule.matches(&facts));
    }
}
