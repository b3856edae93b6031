//! The data node: drives, local memory, the parity engine and the transfer engine.
