//! Instruction sets.

use std::fmt;
use std::str::FromStr;

/// An instruction set for which there are kernels; a later one is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// 64-bit words of any machine.
    Scalar,
    /// x86: SSSE3, SSE4.1 and PCLMULQDQ.
    Ssse3,
    /// x86: AVX2 and PCLMULQDQ.
    Avx2,
    /// x86: AVX2, GFNI and VPCLMULQDQ.
    Avx2Gfni,
    /// x86: AVX-512 F, BW, VL, VBMI, with GFNI and VPCLMULQDQ.
    Avx512,
    /// Arm: Advanced SIMD.
    Neon,
}

impl Isa {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Scalar, Self::Ssse3, Self::Avx2, Self::Avx2Gfni, Self::Avx512, Self::Neon];

    /// The name in reports and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Avx2Gfni => "avx2-gfni",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// Returns whether this processor has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => {
                is_x86_feature_detected!("ssse3")
                    && is_x86_feature_detected!("sse4.1")
                    && is_x86_feature_detected!("pclmulqdq")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Gfni => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("pclmulqdq")
                    && is_x86_feature_detected!("vpclmulqdq")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("pclmulqdq")
                    && is_x86_feature_detected!("vpclmulqdq")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Self::Neon => false,
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|isa| isa.name() == text).ok_or_else(|| {
            format!("'{text}' is no instruction set: scalar, ssse3, avx2, avx2-gfni, avx512 or neon")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        assert!(Isa::Scalar.is_available());
        assert!("avx1024".parse::<Isa>().is_err());
    }
}
