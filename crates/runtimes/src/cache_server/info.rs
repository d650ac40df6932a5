//! The server's own account of itself: the answer of Redis and Valkey to `INFO`. Fields that a version does
//! not have count as nothing.

use plimsoll_unit::Bytes;
use std::collections::HashMap;

/// The first version that evicts in slices of time, between the commands of others. Earlier ones evict all of
/// a step before they go on. Valkey tells a later version of Redis that it stands for.
const SLICES: (u32, u32) = (6, 2);

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    /// Its number as it knows itself.
    pub(super) pid: Option<u32>,
    /// Whether a step of eviction lets others have their turn.
    pub(super) has_slices: bool,
    /// `standalone`, `cluster` or `sentinel`.
    pub(super) mode: String,
    /// It reads its data from a file.
    pub(super) loads: bool,
    /// It follows another server.
    pub(super) is_replica: bool,
    /// Memory that its allocator gave out, bytes.
    pub(super) used: Bytes,
    /// The part of it that `maxmemory` does not count.
    pub(super) not_counted: Bytes,
    /// The part of it that is no data: tables, buffers, and what it had at its start.
    pub(super) overhead: Bytes,
    /// Memory of the allocator that it holds, but could give back at once.
    pub(super) idle: Bytes,
    /// Most that it may use, by its own account; 0 if it has no maximum.
    pub(super) maxmemory: Bytes,
    /// Its `maxmemory-policy`.
    pub(super) policy: String,
    /// Objects that a thread of its own is freeing.
    pub(super) pending: u64,
    /// A process that it forked writes a file.
    pub(super) saves: bool,
    /// Changes with each such process.
    pub(super) forks: (u64, u64),
    /// Memory that the present or the last such process made it copy.
    pub(super) copied: Bytes,
    /// Its keys, and those with a time of expiry.
    pub(super) keys: u64,
    pub(super) expires: u64,
    /// Keys that it dropped for want of memory since its start.
    pub(super) evicted: u64,
}

impl Info {
    /// Reads an answer.
    pub(super) fn parse(text: &str) -> Info {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let fields: HashMap<&str, &str> = lines.collect();
        let word = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let number = |name: &str| word(name).parse::<u64>().unwrap_or(0);
        let bytes = |name: &str| Bytes(number(name));
        let saves = [
            "rdb_bgsave_in_progress",
            "aof_rewrite_in_progress",
            "module_fork_in_progress",
        ];
        let last = bytes("rdb_last_cow_size").max(bytes("aof_last_cow_size"));
        let (keys, expires) = keyspace(&fields);
        Info {
            pid: word("process_id").parse().ok(),
            has_slices: version(&word("redis_version")) >= SLICES,
            mode: word("redis_mode"),
            loads: number("loading") > 0,
            is_replica: word("role") == "slave",
            used: bytes("used_memory"),
            not_counted: bytes("mem_not_counted_for_evict"),
            overhead: bytes("used_memory_overhead"),
            idle: bytes("allocator_resident") - bytes("allocator_active"),
            maxmemory: bytes("maxmemory"),
            policy: word("maxmemory_policy"),
            pending: number("lazyfree_pending_objects"),
            saves: saves.iter().any(|name| number(name) > 0),
            forks: (number("total_forks"), number("rdb_last_save_time")),
            copied: bytes("current_cow_size").max(last),
            keys,
            expires,
            evicted: number("evicted_keys"),
        }
    }

    /// The memory that its maximum is compared with.
    pub(super) fn counted(&self) -> Bytes {
        self.used - self.not_counted
    }

    /// Why its maximum must not be lowered, if so.
    pub(super) fn unfit(&self) -> Option<String> {
        let few_expire = self.policy.starts_with("volatile-") && self.expires < self.keys / 2;
        if self.is_replica {
            Some(
                "it is a replica, which drops only what its primary drops: steer the primary"
                    .to_owned(),
            )
        } else if !self.evicts() {
            Some(format!(
                "its maxmemory-policy is `{}`, so less memory would make commands fail: if it is a cache, \
                 give it a policy that evicts, such as `allkeys-lru`",
                self.policy
            ))
        } else if few_expire {
            Some(format!(
                "its maxmemory-policy is `{}`, but only {} of its {} keys have a time of expiry, so less \
                 memory would make commands fail: give it `allkeys-lru`, say",
                self.policy, self.expires, self.keys
            ))
        } else {
            None
        }
    }

    fn evicts(&self) -> bool {
        let kinds = ["allkeys-", "volatile-"];
        kinds.iter().any(|kind| self.policy.starts_with(kind))
    }
}

/// The first two numbers of a version; 0 for what is none.
fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Keys of all databases, and those of them that expire: lines such as `db0:keys=5,expires=1,avg_ttl=0`.
fn keyspace(fields: &HashMap<&str, &str>) -> (u64, u64) {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_database = |name: &str| name.strip_prefix("db").is_some_and(is_number);
    let databases = fields.iter().filter(|(name, _)| is_database(name));
    let count = |text: &str, kind: &str| -> u64 {
        let mut parts = text.split(',').filter_map(|part| part.split_once('='));
        let found = parts.find(|(name, _)| *name == kind);
        found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    databases.fold((0, 0), |(keys, expires): (u64, u64), (_, text)| {
        (
            keys.saturating_add(count(text, "keys")),
            expires.saturating_add(count(text, "expires")),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nprocess_id:4711\r\n\
        # Memory\r\nused_memory:1000\r\nused_memory_overhead:400\r\nallocator_active:1200\r\n\
        allocator_resident:1500\r\nmaxmemory:2000\r\nmaxmemory_policy:allkeys-lru\r\n\
        mem_not_counted_for_evict:100\r\nlazyfree_pending_objects:3\r\n# Persistence\r\nloading:0\r\n\
        rdb_bgsave_in_progress:1\r\nrdb_last_save_time:9\r\nrdb_last_cow_size:70\r\n\
        # Stats\r\nevicted_keys:12\r\ntotal_forks:2\r\n# Replication\r\nrole:master\r\n\
        # Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=0\r\ndb11:keys=2,expires=2,avg_ttl=0\r\n";

    #[test]
    fn an_answer_is_read() {
        let info = Info::parse(TEXT);
        let expected = Info {
            pid: Some(4711),
            has_slices: true,
            mode: "standalone".into(),
            used: Bytes(1000),
            not_counted: Bytes(100),
            overhead: Bytes(400),
            idle: Bytes(300),
            maxmemory: Bytes(2000),
            policy: "allkeys-lru".into(),
            pending: 3,
            saves: true,
            forks: (2, 9),
            copied: Bytes(70),
            keys: 7,
            expires: 3,
            evicted: 12,
            ..Info::default()
        };
        assert_eq!(info, expected);
        assert_eq!((info.counted(), info.unfit()), (Bytes(900), None));
        assert_eq!(Info::parse(""), Info::default());
    }

    #[test]
    fn who_cannot_make_room_is_unfit() {
        let with = |from: &str, to: &str| Info::parse(&TEXT.replace(from, to)).unfit();
        assert!(
            with("role:master", "role:slave")
                .unwrap()
                .contains("replica")
        );
        assert!(
            with("allkeys-lru", "noeviction")
                .unwrap()
                .contains("`noeviction`")
        );
        assert!(with(":allkeys-lru", ":").is_some());
        // Three of seven keys expire, then four.
        assert_eq!(with("allkeys-lru", "volatile-lru"), None);
        let none = TEXT.replace("expires=2", "expires=0");
        let few = Info::parse(&none.replace("allkeys-lru", "volatile-ttl"));
        assert!(few.unfit().unwrap().contains("only 1 of its 7 keys"));
    }

    #[test]
    fn old_versions_evict_all_at_once() {
        for (text, slices) in [
            ("6.2.7", true),
            ("7.2.4", true),
            ("6.0.16", false),
            ("x", false),
        ] {
            let info = Info::parse(&format!("redis_version:{text}"));
            assert_eq!(info.has_slices, slices, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(text in ".{0,300}", number in any::<u64>()) {
            let _ = Info::parse(&text).unfit();
            let info = Info::parse(&format!("used_memory:{number}\nmem_not_counted_for_evict:7"));
            prop_assert_eq!(info.counted(), Bytes(number) - Bytes(7));
        }
    }
}
