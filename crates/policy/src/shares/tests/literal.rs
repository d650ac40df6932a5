//! Walfield's algorithms, transcribed from the paper as literally as possible, one frame at a time,
//! for one family. Corrections to errors of the print are marked `mended`.

/// One child of the principal in question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) weight: u64,
    pub(super) priority: i32,
    pub(super) alloc: u64,
    pub(super) ws: u64,
    pub(super) rec_alloc: i64,
}

fn classes(children: &[Child]) -> Vec<i32> {
    let mut classes: Vec<i32> = children.iter().map(|c| c.priority).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Algorithm 1; returns all children that it could pick (several in a tie).
pub(super) fn select_victim(children: &[Child]) -> Vec<usize> {
    if children.iter().all(|c| c.alloc == 0) {
        return Vec::new(); // mended: the print loops for ever
    }
    let mut ws_factor: u128 = 1;
    loop {
        for class in classes(children) {
            let mut victims: Vec<usize> = Vec::new();
            // Weight per frame as a fraction (weight, frames); (1, 0) is infinite.
            let mut weight_per_frame = (1u128, 0u128);
            for (i, p) in children
                .iter()
                .enumerate()
                .filter(|(_, p)| p.priority == class)
            {
                let ws = u128::from(p.ws) / ws_factor;
                if u128::from(p.alloc) > ws {
                    let t = (u128::from(p.weight), u128::from(p.alloc) - ws);
                    let (mine, best) = (t.0 * weight_per_frame.1, weight_per_frame.0 * t.1);
                    if mine < best {
                        weight_per_frame = t;
                        victims = vec![i];
                    } else if mine == best {
                        victims.push(i);
                    }
                }
            }
            if !victims.is_empty() {
                return victims;
            }
        }
        ws_factor *= 2;
    }
}

/// Algorithm 2 for the allocations `alloc` of `avail` frames.
pub(super) fn available(children: &[Child], alloc: &[u64], avail: u64) -> Vec<u64> {
    let total = avail;
    let mut avail = i128::from(avail);
    let mut out = vec![0; children.len()];
    for class in classes(children).into_iter().rev() {
        let members: Vec<usize> = (0..children.len())
            .filter(|&i| children[i].priority == class)
            .collect();
        for &p in &members {
            avail -= i128::from(alloc[p]);
        }
        for &p in &members {
            let (mut w, mut a) = (0u128, 0u128); // mended: the print never starts anew
            for &q in &members {
                let mine = u128::from(children[p].weight) * u128::from(alloc[q]);
                if u128::from(children[q].weight) * u128::from(alloc[p]) <= mine {
                    w += u128::from(children[q].weight);
                    a += u128::from(alloc[q]);
                }
            }
            let part = (u128::from(children[p].weight) * a / w) as i128;
            out[p] = ((part + avail).max(0) as u64).min(total); // mended: not below nothing
        }
    }
    out
}

/// Algorithm 3, one frame at a time.
pub(super) fn effective_allocation(children: &[Child], avail: u64) -> Vec<u64> {
    let mut eff: Vec<u64> = children
        .iter()
        .map(|p| p.alloc.saturating_add_signed(p.rec_alloc.min(0)))
        .collect();
    // mended: what is freed becomes available, and what lower classes have is not free.
    let mut avail = avail.saturating_sub(eff.iter().sum());
    for class in classes(children).into_iter().rev() {
        for p in (0..children.len()).filter(|&i| children[i].priority == class) {
            let mut alloc = children[p].rec_alloc;
            while alloc > 0 {
                if avail > 0 {
                    avail -= 1;
                } else {
                    let ratio = |i: usize, j: usize| children[i].weight * eff[j];
                    let lowest = (0..children.len())
                        .filter(|&i| eff[i] > 0)
                        .min_by(|&i, &j| {
                            let class = children[i].priority.cmp(&children[j].priority);
                            class
                                .then(ratio(i, j).cmp(&ratio(j, i)))
                                .then((j == p).cmp(&(i == p)))
                        });
                    let Some(q) = lowest else { break };
                    if q == p || children[q].priority > class {
                        break; // mended: nothing is preempted from higher classes
                    }
                    eff[q] -= 1;
                }
                eff[p] += 1; // mended: also when it was preempted
                alloc -= 1;
            }
        }
    }
    eff
}
