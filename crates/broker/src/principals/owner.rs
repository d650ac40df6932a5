//! Whose a principal is.

use crate::server::epoll::Slot;

/// The user and the connection that a principal belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Uid of its owner.
    pub uid: u32,
    /// Uid that its work counts for: that of its process where the broker or root registered it.
    pub payer: u32,
    /// The user, if it is the group of a user.
    pub tenant: Option<u32>,
    /// The connection that it lives on; `None` for groups made by the broker.
    pub slot: Option<Slot>,
    /// Process id of the peer of that connection.
    pub registrar: u32,
    /// For a group: process id and start time of the process that keeps it, if visible.
    pub keeper: Option<(i32, u64)>,
}

impl Owner {
    /// The broker, which runs as `uid` and makes the principal by itself.
    #[must_use]
    pub fn broker(uid: u32) -> Owner {
        Owner {
            uid,
            payer: uid,
            tenant: None,
            slot: None,
            registrar: 0,
            keeper: None,
        }
    }

    /// Whether the principal is that user's: registered or adopted for that user, or a group made for it.
    #[must_use]
    pub fn is(&self, uid: u32) -> bool {
        self.uid == uid || self.payer == uid || self.tenant == Some(uid)
    }

    /// Whether the broker made this group by itself, for a limiting cgroup or for a user.
    #[must_use]
    pub fn is_broker(&self) -> bool {
        self.slot.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_user_is_the_users_and_the_brokers() {
        let owner = Owner {
            tenant: Some(7),
            ..Owner::broker(0)
        };
        assert!(owner.is(0) && owner.is(7) && !owner.is(8));
        assert!(owner.is_broker());
    }
}
