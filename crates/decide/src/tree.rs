//! The tree of principals: a slab of nodes, an index by id, and an order in which parents come
//! first. It grows only at registration; nothing here allocates during a tick.

use super::node::Node;
use super::{MAX_DEPTH, Refusal};
use plimsoll_wire::messages::Id;

#[derive(Debug, Default)]
pub(super) struct Tree {
    slots: Vec<Option<Node>>,
    free: Vec<u32>,
    /// Id and slot, sorted by id. New ids are the highest, so they go to the end.
    index: Vec<(Id, u32)>,
    /// Slots, parents first.
    order: Vec<u32>,
    stale: bool,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn slot(&self, id: Id) -> Option<u32> {
        let at = self.index.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.index[at].1)
    }

    pub(super) fn find(&self, id: Id) -> Result<u32, Refusal> {
        self.slot(id).ok_or(Refusal::NoSuchPrincipal(id))
    }

    /// The node of a slot that the index, the order or a parent link named.
    pub(super) fn at(&self, slot: u32) -> &Node {
        self.slots[slot as usize]
            .as_ref()
            .expect("a linked slot holds a node")
    }

    pub(super) fn at_mut(&mut self, slot: u32) -> &mut Node {
        self.slots[slot as usize]
            .as_mut()
            .expect("a linked slot holds a node")
    }

    /// Adds a node; its id must be higher than all before.
    pub(super) fn insert(&mut self, node: Node) {
        assert!(
            self.index.last().is_none_or(|&(last, _)| last < node.id),
            "numbers only grow"
        );
        let id = node.id;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(node);
        self.index.push((id, slot));
        self.order
            .reserve(self.index.len().saturating_sub(self.order.len()));
        self.free.reserve(self.slots.len() - self.free.len());
        self.stale = true;
    }

    /// Removes a node; its children move to its parent.
    pub(super) fn remove(&mut self, slot: u32) -> Node {
        let node = self.slots[slot as usize]
            .take()
            .expect("a linked slot holds a node");
        if let Ok(at) = self.index.binary_search_by_key(&node.id, |&(id, _)| id) {
            self.index.remove(at);
        }
        self.free.push(slot);
        for other in self.slots.iter_mut().flatten() {
            if other.position.parent == Some(slot) {
                other.position.parent = node.position.parent;
            }
        }
        self.stale = true;
        self.relevel();
        node
    }

    /// Checks whether a node may move under `parent`.
    pub(super) fn check_move(&self, slot: u32, parent: u32) -> Result<(), Refusal> {
        let (child_id, parent_id) = (self.at(slot).id, self.at(parent).id);
        if slot == parent || self.is_under(parent, slot) {
            return Err(Refusal::Cycle {
                child: child_id,
                parent: parent_id,
            });
        }
        let depth = self.at(parent).position.level as usize + self.height(slot);
        if depth > MAX_DEPTH {
            Err(Refusal::TooDeep(depth))
        } else {
            Ok(())
        }
    }

    /// Moves a node; call it only after [`Tree::check_move`] allowed the move.
    pub(super) fn reparent(&mut self, slot: u32, parent: Option<u32>) {
        self.at_mut(slot).position.parent = parent;
        self.stale = true;
        self.relevel();
    }

    fn is_under(&self, slot: u32, ancestor: u32) -> bool {
        self.ancestors(slot).any(|above| above == ancestor)
    }

    /// Parents of a slot, nearest first; at most `MAX_DEPTH` of them.
    pub(super) fn ancestors(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.at(slot).position.parent;
        std::iter::from_fn(move || {
            let above = next?;
            next = self.at(above).position.parent;
            Some(above)
        })
        .take(MAX_DEPTH)
    }

    /// Levels of the subtree of a node, 1 for a leaf.
    fn height(&self, slot: u32) -> usize {
        let top = self.at(slot).position.level as usize;
        let below = self
            .index
            .iter()
            .filter(|&&(_, other)| self.is_under(other, slot));
        below
            .map(|&(_, other)| self.at(other).position.level as usize - top + 1)
            .max()
            .unwrap_or(1)
    }

    /// Computes all levels anew, one pass per level, so that parents are right before their
    /// children.
    fn relevel(&mut self) {
        for _ in 0..=MAX_DEPTH {
            let mut changed = false;
            for at in 0..self.index.len() {
                let slot = self.index[at].1;
                let node = self.at(slot);
                let top = u8::from(!node.origin.tenant);
                let level = node
                    .position
                    .parent
                    .map_or(top, |above| self.at(above).position.level + 1);
                changed |= self.at(slot).position.level != level;
                self.at_mut(slot).position.level = level;
            }
            if !changed {
                return;
            }
        }
    }

    /// Brings the order up to date; within one level, older principals come first.
    pub(super) fn arrange(&mut self) {
        if !self.stale {
            return;
        }
        self.order.clear();
        for level in 0..=MAX_DEPTH {
            for at in 0..self.index.len() {
                let slot = self.index[at].1;
                if self.at(slot).position.level as usize == level {
                    self.at_mut(slot).position.place = self.order.len() as u32;
                    self.order.push(slot);
                }
            }
            if self.order.len() == self.index.len() {
                break;
            }
        }
        debug_assert_eq!(
            self.order.len(),
            self.index.len(),
            "every principal has a place"
        );
        self.stale = false;
    }

    /// The slot at a position of the order.
    pub(super) fn ordered(&self, place: usize) -> u32 {
        self.order[place]
    }

    /// Nodes, oldest first.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> + '_ {
        self.index.iter().map(|&(_, slot)| self.at(slot))
    }

    /// Nodes level by level, parents before their children, whether or not the order is up to date.
    pub(super) fn by_level(&self) -> impl Iterator<Item = &Node> + '_ {
        (0..=MAX_DEPTH as u8).flat_map(move |level| {
            self.nodes()
                .filter(move |node| node.position.level == level)
        })
    }
}
