//! Keys, responses and exchanges: against published and measured vectors, a second implementation,
//! and peers that lie.

mod damage;
mod ends;
mod exchanges;
mod hostile;
mod keys;
mod refused;
mod responses;
mod turns;
