//! LVM on disk, from outside: volumes that Linux made, whole, degraded and damaged; grammar; states.

mod array;
mod images;
mod sets;
