//! A path for each principal, by which its series are told apart.
//!
//! Names alone do not do: siblings may share one. Numbers (`id`) do, but each start of a program has a new
//! one, so that the number of series would grow for ever. A path is the names from the top down, such as
//! `user ann/shop/search`: a program that is started again goes on in the series of its last run. When
//! another principal has the path already, `#2`, `#3` and so on is added. It keeps that for as long as it
//! lives.

use plimsoll_wire::messages::Id;
use std::collections::{HashMap, HashSet};

/// The paths that are given out.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    given: HashMap<Id, Given>,
    taken: HashSet<String>,
}

#[derive(Debug)]
struct Given {
    /// The path before a number was added.
    plain: String,
    path: String,
}

impl Paths {
    /// Forgets the paths of principals that are not there any more.
    pub(crate) fn keep(&mut self, is_there: impl Fn(Id) -> bool) {
        let taken = &mut self.taken;
        self.given.retain(|id, given| {
            let keep = is_there(*id);
            if !keep {
                taken.remove(&given.path);
            }
            keep
        });
    }

    /// The path of a principal below that of its parent (empty at the top).
    pub(crate) fn of(&mut self, id: Id, parent: &str, name: &str) -> String {
        let plain = match parent {
            "" => name.to_owned(),
            parent => format!("{parent}/{name}"),
        };
        if let Some(given) = self.given.get(&id) {
            if given.plain == plain {
                return given.path.clone();
            }
            // It has another name or parent now.
            self.taken.remove(&given.path);
        }
        let numbered = (2..).map(|number: u64| format!("{plain}#{number}"));
        let mut candidates = std::iter::once(plain.clone()).chain(numbered);
        let free = candidates.find(|path| !self.taken.contains(path));
        let path = free.unwrap_or_else(|| plain.clone());
        self.taken.insert(path.clone());
        let given = Given {
            plain,
            path: path.clone(),
        };
        self.given.insert(id, given);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_stays_as_long_as_its_principal_and_is_then_free() {
        let mut paths = Paths::default();
        assert_eq!(paths.of(1, "", "shop"), "shop");
        let workers = [2, 3, 4].map(|id| paths.of(id, "shop", "worker"));
        assert_eq!(workers, ["shop/worker", "shop/worker#2", "shop/worker#3"]);
        paths.keep(|id| id != 3);
        assert_eq!(paths.of(4, "shop", "worker"), "shop/worker#3");
        assert_eq!(paths.of(5, "shop", "worker"), "shop/worker#2");
        paths.keep(|_| false);
        assert_eq!(paths.of(9, "shop", "worker"), "shop/worker");
        assert_eq!(paths.of(9, "", "worker"), "worker");
        assert_eq!(paths.of(10, "shop", "worker"), "shop/worker");
    }

    proptest! {
        /// Also with names that look like paths and numbers.
        #[test]
        fn no_two_have_the_same(names in prop::collection::vec("[ab/#23]{1,3}", 1..40)) {
            let mut paths = Paths::default();
            let all: HashSet<String> = names
                .iter()
                .enumerate()
                .map(|(id, name)| paths.of(id as Id, "", name))
                .collect();
            prop_assert_eq!(all.len(), names.len());
        }
    }
}
