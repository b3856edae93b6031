//! AVX2, VPCLMULQDQ and GFNI: 32 bytes a register.

use super::avx2::Ymm;
use super::lines::Lines;
use super::table::table;

table!(Lines<Ymm>, Ymm, "avx2,sse4.1,ssse3,pclmulqdq,vpclmulqdq,gfni");
