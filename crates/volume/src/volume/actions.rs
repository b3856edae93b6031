//! Actions that are under way.

use super::Owner;
use crate::action::ActionId;
use pumice_base::units::Role;

/// Actions that are under way, with who waits for each, and its member.
///
/// A number says where its action is kept, and no two actions that are under way have the same one.
/// It is given anew only after 2^40 others.
#[derive(Debug, Default)]
pub(super) struct Actions {
    places: Vec<Option<(ActionId, Owner, Option<Role>)>>,
    free: Vec<usize>,
    /// Numbers that were given.
    given: u64,
}

impl Actions {
    pub(super) fn insert(&mut self, owner: Owner, role: Option<Role>) -> ActionId {
        let place = self.free.pop().unwrap_or(self.places.len());
        assert!(
            self.places.get(place).is_none_or(Option::is_none),
            "V28: no two actions under way have one number"
        );
        let id = ActionId(self.given << ActionId::PLACE_BITS | place as u64);
        self.given += 1;
        let action = Some((id, owner, role));
        match self.places.get_mut(place) {
            Some(kept) => *kept = action,
            None => self.places.push(action),
        }
        id
    }

    /// It is over.
    pub(super) fn remove(&mut self, id: ActionId) -> Option<(Owner, Option<Role>)> {
        let place = id.place();
        let kept = self.places.get_mut(place)?;
        let (_, owner, role) = kept.take_if(|(known, ..)| *known == id)?;
        self.free.push(place);
        Some((owner, role))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// The owners that wait for them.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.places.iter().flatten().map(|(_, owner, _)| owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_over_once_and_no_other_has_its_number() {
        let mut actions = Actions::default();
        let one = actions.insert(Owner::Intent, None);
        let two = actions.insert(Owner::Procedure, Some(Role(3)));
        assert!(matches!(actions.remove(one), Some((Owner::Intent, None))));
        assert!(actions.remove(one).is_none() && actions.remove(ActionId(7)).is_none());
        let three = actions.insert(Owner::Recovery, None);
        assert!(three != one && actions.remove(one).is_none(), "the place is another's now");
        assert_eq!((actions.owners().count(), actions.places.len()), (2, 2));
        assert!(matches!(actions.remove(two), Some((Owner::Procedure, Some(Role(3))))));
        assert!(!actions.is_empty() && actions.remove(three).is_some() && actions.is_empty());
    }
}
