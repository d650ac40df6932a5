//! Algorithm 1: the principal to revoke memory from. Corrections to the printed algorithm: it ends
//! when nobody uses any memory, and a victim found in one class is not mistaken for one of the
//! next.

use super::tree::{Node, Tree, next_class};
use super::types::Victim;

/// Bytes outside the working set, which counts halved `halvings` times.
fn excess(node: &Node, halvings: u32) -> u64 {
    node.uses
        .saturating_sub(node.working_set.checked_shr(halvings).unwrap_or(0))
}

/// In the lowest class that has excess: the member with the least weight per byte of excess.
fn pick(nodes: &[Node], members: &[u32], halvings: u32) -> Option<u32> {
    let mut worst: Option<u32> = None;
    let mut ends = members.len();
    while ends > 0 && worst.is_none() {
        let class = nodes[members[ends - 1] as usize].priority;
        let start = members[..ends].partition_point(|&m| nodes[m as usize].priority > class);
        debug_assert_eq!(
            next_class(nodes, &mut &members[start..]),
            Some(&members[start..ends])
        );
        for &m in &members[start..ends] {
            let this = &nodes[m as usize];
            if excess(this, halvings) == 0 {
                continue;
            }
            let key =
                |n: &Node, other: &Node| u128::from(excess(n, halvings)) * u128::from(other.weight);
            let beats = worst.is_none_or(|w| {
                let best = &nodes[w as usize];
                (key(this, best), excess(this, halvings))
                    > (key(best, this), excess(best, halvings))
            });
            if beats {
                worst = Some(m);
            }
        }
        ends = start;
    }
    worst
}

/// Descends from the top to the victim.
pub(super) fn select(tree: &Tree) -> Option<Victim> {
    let n = tree.count();
    let mut family = 0;
    // Each step goes to a child, so the steps are bounded by the depth.
    loop {
        let members = tree.members(family);
        let (member, halvings) =
            (0..=u64::BITS).find_map(|h| pick(&tree.nodes, members, h).map(|m| (m as usize, h)))?;
        if member >= n {
            return Some(Victim {
                principal: member - n,
                excess: excess(&tree.nodes[member], halvings),
            });
        }
        family = member + 1;
    }
}
