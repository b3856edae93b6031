//! The rotation of parity and data over the members, stripe by stripe. The formulas are in the
//! header of [`super`].

use super::{Geometry, StripeMap};
use crate::layout::{Layout, Level};
use pumice_base::units::{Role, StripeIndex};

impl Geometry {
    /// The places of P and Q in `stripe`.
    #[must_use]
    pub fn parity_roles(&self, stripe: StripeIndex) -> (Role, Option<Role>) {
        let n = self.raid_disks;
        // The remainder of a division by a u16 fits one.
        let turn = |by: u16| (stripe.get() % u64::from(by)) as u16;
        let q_after = |p: u16| (p, (p + 1) % n);
        let (p, q) = match self.layout {
            None => (n - 1, 0),
            Some(Layout::ParityLast) if self.level == Level::Raid5 => (n - 1, 0),
            Some(Layout::ParityLast) => (n - 2, n - 1),
            Some(Layout::ParityFirst) => (0, 1),
            Some(Layout::LeftAsymmetric | Layout::LeftSymmetric) => q_after(n - 1 - turn(n)),
            Some(Layout::RightAsymmetric | Layout::RightSymmetric | Layout::DdfZeroRestart) => {
                q_after(turn(n))
            }
            Some(Layout::DdfNRestart) => q_after(n - 1 - (turn(n) + 1) % n),
            Some(Layout::DdfNContinue) => {
                let p = n - 1 - turn(n);
                (p, (p + n - 1) % n)
            }
            Some(Layout::LeftAsymmetric6 | Layout::LeftSymmetric6) => (n - 2 - turn(n - 1), n - 1),
            Some(Layout::RightAsymmetric6 | Layout::RightSymmetric6) => (turn(n - 1), n - 1),
            Some(Layout::ParityFirst6) => (0, n - 1),
            Some(Layout::Copies(_)) => unreachable!("a geometry of copies is not made"),
        };
        (Role(p), (self.level == Level::Raid6).then_some(Role(q)))
    }

    /// Returns whether the data members are counted from the one after parity on.
    const fn wraps(&self) -> bool {
        matches!(
            self.layout,
            Some(
                Layout::LeftSymmetric
                    | Layout::RightSymmetric
                    | Layout::LeftSymmetric6
                    | Layout::RightSymmetric6
                    | Layout::DdfNContinue
            )
        )
    }

    /// The members that take part in the rotation: all but the fixed Q of the *-6 layouts.
    const fn rotating(&self) -> u16 {
        match self.layout {
            Some(layout) if layout.number() >= Layout::LeftAsymmetric6.number() => self.raid_disks - 1,
            _ => self.raid_disks,
        }
    }

    /// The members of `stripe`.
    #[must_use]
    pub fn stripe(&self, stripe: StripeIndex) -> StripeMap {
        let (p, q) = self.parity_roles(stripe);
        let rotating = self.rotating();
        let start = if self.wraps() { self.after_parity(p, q) } else { 0 };
        let data: Vec<Role> = (0..self.raid_disks)
            .map(|i| Role(if i < rotating { (start + i) % rotating } else { i }))
            .filter(|role| *role != p && Some(*role) != q)
            .collect();
        let exponents = data.iter().filter_map(|role| self.q_exponent(p, q, *role)).collect();
        StripeMap { p, q, data, exponents }
    }

    /// The member from which a wrapping layout counts its data members.
    fn after_parity(&self, p: Role, q: Option<Role>) -> u16 {
        let n = self.rotating();
        let after_p = (p.get() + 1) % n;
        match q {
            Some(q) if q.get() == after_p => (q.get() + 1) % n,
            _ => after_p,
        }
    }

    /// The data index of `role` in `stripe`; `None` if it holds parity, or is no member.
    #[must_use]
    pub fn data_index(&self, stripe: StripeIndex, role: Role) -> Option<u16> {
        let (p, q) = self.parity_roles(stripe);
        if role.get() >= self.raid_disks || role == p || Some(role) == q {
            return None;
        }
        if self.wraps() {
            // No parity stands between the first data member and Q or P, where the count ends.
            let n = self.rotating();
            return Some((role.get() + n - self.after_parity(p, q)) % n);
        }
        let before = u16::from(p < role) + q.map_or(0, |q| u16::from(q < role));
        Some(role.get() - before)
    }

    /// The exponent of the generator by which the data of `role` enters Q.
    pub(super) fn q_exponent(&self, p: Role, q: Option<Role>, role: Role) -> Option<u8> {
        let q = q?;
        let exponent = match self.layout {
            Some(Layout::DdfZeroRestart | Layout::DdfNRestart | Layout::DdfNContinue) => role.get(),
            _ => {
                let after_q = |role: Role| (role.get() + self.raid_disks - q.get() - 1) % self.raid_disks;
                after_q(role) - u16::from(after_q(p) < after_q(role))
            }
        };
        u8::try_from(exponent).ok()
    }

    /// The member with data chunk `index` of `stripe`.
    pub(super) fn data_role(&self, stripe: StripeIndex, index: u16) -> Role {
        let (p, q) = self.parity_roles(stripe);
        if self.wraps() {
            return Role((self.after_parity(p, q) + index) % self.rotating());
        }
        let low = q.map_or(p, |q| p.min(q));
        let high = q.map_or(u16::MAX, |q| p.max(q).get());
        // Step over each parity that stands at or before the place reached so far.
        let role = index + u16::from(low.get() <= index);
        Role(role + u16::from(high <= role))
    }
}
