//! The parity command set: what a host asks of a data node, and the trait that both ends share.
