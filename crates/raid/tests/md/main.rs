//! md on disk and in geometry, from outside: tables, real arrays, arrays in every state, arrays of
//! our own making.

mod again;
mod assembly;
mod devices;
mod images;
mod layouts;
mod mirrors;
mod partitions;
mod plan;
mod several;
mod stackings;
mod states;
mod superblock;
mod writer;
