//! Pages of files: which of them are in use, and what each principal pays for them.
//!
//! The kernel drops a page of a file that nobody uses, for free, so it is charged to nobody. A page that
//! is touched again and again would have to be read again at once, so it is memory that somebody needs.
//! Reference bits tell how many pages a process touched in each half of a window, but not which. The pages
//! that were touched in both halves are as many as those of the first and those of the second, less those
//! of the whole ([`touched_again`]). A program that goes through a large file once touches as much in each
//! half, and nothing again.
//!
//! Pages that several processes use count once: at least as many are in use as the busiest process uses.
//! They are divided as shared memory is, by the rates of access ([`super::Ownership`]).

use super::Portion;
use plimsoll_unit::Bytes;

/// A principal, and its use of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct User {
    /// The principal.
    pub principal: u64,
    /// Number of its processes that have pages of the file mapped.
    pub processes: u32,
    /// Touched again and again by the busiest of them.
    pub uses: Bytes,
    /// Processes of nobody that have the same pages mapped, on average over the pages.
    pub strangers: f64,
    /// Memory that the principal pays.
    pub pays: Bytes,
}

/// Memory that was touched in both halves of a window, if `half` was touched in the first and `whole` in
/// both together, and the second half was like the first and no shorter. Never more than `half`.
pub fn touched_again(half: Bytes, whole: Bytes) -> Bytes {
    (half * 2 - whole).min(half)
}

/// Processes beyond the `known` ones that map the same pages of a file, on average over the pages. One
/// process has `resident` bytes mapped, `proportional` by its part of each page.
pub fn strangers(resident: Bytes, proportional: Bytes, known: u32) -> f64 {
    let mappers = resident.0 as f64 / proportional.0.max(1) as f64;
    (mappers - f64::from(known)).max(0.0)
}

/// Divides what is in use of a file: sets what each of its users pays. A principal that uses nothing pays
/// nothing. Strangers bear the same part for each of their processes as the principals do, because it is
/// not known what they use. `portions`: by the rates of access, as far as they were measured; until those
/// of all users were, each pays by what it uses.
pub fn divide(users: &mut [User], portions: &[Portion]) {
    let active = |user: &User| user.uses > Bytes::ZERO;
    let of = |principal: u64| portions.iter().find(|one| one.principal == principal);
    let measured = |user: &User| of(user.principal).map(|one| one.rate);
    let rates = |user: &User| measured(user).filter(|_| active(user)).unwrap_or(0.0);
    let by_use = |user: &User| user.uses.0 as f64;
    let all: f64 = users.iter().map(rates).sum();
    let known = users
        .iter()
        .all(|user| !active(user) || measured(user).is_some());
    let by_rate = known && all > f64::MIN_POSITIVE;
    let sum = if by_rate {
        all
    } else {
        users.iter().map(by_use).sum()
    };
    let in_use = in_use(users).0 as f64;
    for user in users {
        let part = if by_rate { rates(user) } else { by_use(user) };
        user.pays = Bytes((in_use * part / sum.max(f64::MIN_POSITIVE)) as u64);
    }
}

/// Memory that all principals together use of a file, without the strangers' part.
fn in_use(users: &[User]) -> Bytes {
    let most = users.iter().map(|user| user.uses).max();
    let processes = users.iter().map(|user| f64::from(user.processes)).sum();
    let strangers = users.iter().map(|user| user.strangers);
    let strangers = strangers.fold(f64::INFINITY, f64::min);
    let ours: f64 = if strangers.is_finite() {
        f64::max(processes, 1.0) / (f64::max(processes, 1.0) + strangers.max(0.0))
    } else {
        1.0
    };
    Bytes((most.unwrap_or_default().0 as f64 * ours) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_unit::MIB;
    use proptest::prelude::*;

    fn user(principal: u64, uses: u64) -> User {
        User {
            principal,
            processes: 1,
            uses: Bytes(uses),
            ..User::default()
        }
    }

    fn portion(principal: u64, rate: f64) -> Portion {
        Portion {
            principal,
            rate,
            fraction: 0.0,
            epochs: 9,
        }
    }

    fn paid(users: &[User], portions: &[Portion]) -> Vec<u64> {
        let mut users = users.to_vec();
        divide(&mut users, portions);
        users.iter().map(|user| user.pays.0).collect()
    }

    #[test]
    fn what_is_touched_once_is_not_in_use() {
        let again = |half, whole| touched_again(Bytes(half), Bytes(whole)).0;
        assert_eq!(again(500, 1000), 0, "it goes through a file once");
        assert_eq!(again(500, 1200), 0);
        assert_eq!(again(64, 64), 64, "it touches the same again");
        assert_eq!(again(64, 84), 44);
        assert_eq!(again(64, 0), 64, "the kernel took pages meanwhile");
        assert_eq!(again(0, 64), 0, "it has just begun");
    }

    #[test]
    fn each_pays_by_its_rate_and_who_uses_nothing_pays_nothing() {
        let users = [user(1, 64 * MIB), user(2, 64 * MIB), user(3, 60 * MIB)];
        let rates = [portion(1, 4.0), portion(2, 2.0), portion(3, 2.0)];
        assert_eq!(paid(&users, &rates), [32, 16, 16].map(|n| n * MIB));
        assert_eq!(paid(&users[..1], &rates), [64 * MIB], "the others ended");
        let idle = [user(1, 64 * MIB), user(2, 0)];
        assert_eq!(paid(&idle, &rates), [64 * MIB, 0]);
        assert_eq!(paid(&idle[1..], &rates), [0]);
        assert_eq!(paid(&[], &rates), [0; 0]);
        let even = [user(7, 30 * MIB), user(8, 10 * MIB)];
        let measured = [portion(7, 1.0)];
        assert_eq!(paid(&even, &measured), [45 * MIB / 2, 15 * MIB / 2]);
        assert_eq!(
            paid(&even, &[portion(7, 0.0), portion(8, 0.0)]),
            [45 * MIB / 2, 15 * MIB / 2],
            "epochs that saw nothing tell nothing"
        );
    }

    #[test]
    fn strangers_bear_their_part() {
        let of = |mappers: u64, known| strangers(Bytes(120), Bytes(120 / mappers), known);
        assert_eq!((of(3, 3), of(3, 1), of(1, 4)), (0.0, 2.0, 0.0));
        assert!(strangers(Bytes(u64::MAX), Bytes::ZERO, 0).is_finite());
        let beside = |uses, strangers| User {
            strangers,
            ..user(1, uses)
        };
        assert_eq!(paid(&[beside(60 * MIB, 2.0)], &[]), [20 * MIB]);
        // The newest look counts: one of them has just joined the other.
        let two = [
            beside(60 * MIB, 1.0),
            User {
                principal: 2,
                ..beside(60 * MIB, 0.0)
            },
        ];
        assert_eq!(paid(&two, &[]), [30 * MIB, 30 * MIB]);
    }

    /// Two programs that touch pages at random; an ideal observer sees which.
    #[test]
    fn the_estimate_of_random_accesses_is_no_more_than_the_truth() {
        for rate in [0.01, 0.05, 0.2, 1.0] {
            let touched = |time: f64| Bytes((1e9 * (1.0 - f64::exp(-rate * time))) as u64);
            let twice = (1.0 - f64::exp(-rate * 5.0)).powi(2);
            let found = touched_again(touched(5.0), touched(10.0)).0 as f64 / 1e9;
            assert!((found - twice).abs() < 1e-6, "{found}, true {twice}");
        }
    }

    fn users() -> impl Strategy<Value = Vec<User>> {
        let one = (
            0..6u64,
            0..4u32,
            prop_oneof![Just(0), any::<u64>()],
            0.0..9.0f64,
        );
        prop::collection::vec(one, 0..8).prop_map(|all| {
            let user = |(at, (_, processes, uses, strangers)): (usize, _)| User {
                principal: at as u64,
                processes,
                uses: Bytes(uses),
                strangers,
                pays: Bytes(1),
            };
            all.into_iter().enumerate().map(user).collect()
        })
    }

    proptest! {
        #[test]
        fn nothing_is_paid_twice(
            users in users(),
            rates in prop::collection::vec((0..9u64, prop_oneof![Just(0.0), 0.0..1e12f64]), 0..9),
        ) {
            let rates: Vec<Portion> = rates.iter().map(|&(id, rate)| portion(id, rate)).collect();
            let pays = paid(&users, &rates);
            let most = users.iter().map(|user| user.uses.0).max().unwrap_or(0);
            let sum: u128 = pays.iter().map(|&one| u128::from(one)).sum();
            // Numbers of this size are exact to some thousand bytes.
            prop_assert!(sum <= u128::from(most) + u128::from(most >> 50) + 8, "{sum} of {most}");
            let alone = users.iter().all(|user| user.strangers == 0.0);
            prop_assert!(!alone || sum + u128::from(most >> 50) + 8 >= u128::from(most));
            for (user, pays) in users.iter().zip(&pays) {
                prop_assert!(user.uses > Bytes::ZERO || *pays == 0);
            }
            let mut turned = users.clone();
            turned.reverse();
            let mut other = paid(&turned, &rates);
            other.reverse();
            for (one, other) in pays.iter().zip(&other) {
                prop_assert!(one.abs_diff(*other) <= (one >> 40) + 1, "{one} {other}");
            }
        }

        #[test]
        fn never_more_than_half_the_window_showed(half in any::<u64>(), whole in any::<u64>()) {
            prop_assert!(touched_again(Bytes(half), Bytes(whole)).0 <= half);
        }
    }
}
