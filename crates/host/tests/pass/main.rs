//! Whole passes over arrays in memory: every method, every layout, faults from a seed.

mod altered;
mod archive;
mod crash;
mod damage;
mod journal;
mod ledger;
mod limits;
mod locked;
mod mirrors;
mod premises;
mod progress;
mod settling;
mod sound;
mod standing;
mod unreadable;
mod witness;
mod world;
