//! SSE4.1, SSSE3 and PCLMULQDQ: 16 bytes a register.

use super::body::{Crc16, Products};
use super::table::table;
use super::vector::Xmm;

table!(Products<Xmm, Crc16>, Xmm, "sse4.1,ssse3,pclmulqdq");
