//! Volumes over drives in memory, in virtual time: against a plain model, and through crashes from
//! a seed.

mod apart;
mod asserts;
mod bitmaps;
mod choice;
mod claims;
mod codes;
mod crash;
mod cut_short;
mod decay;
mod harness;
mod held;
mod numbers;
mod older;
mod plain;
mod rejoin;
mod rows;
mod rules;
