//! SSE4.1, SSSE3 and PCLMULQDQ: 16 bytes a register.

use super::table::table;
use super::vector::Xmm;

table!(Xmm, "sse4.1,ssse3,pclmulqdq");
