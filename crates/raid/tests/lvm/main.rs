//! LVM on disk, from outside: volumes that Linux made, damaged ones, the grammar, states.

mod array;
mod damage;
mod grammar;
mod images;
mod made;
mod sets;
mod states;
