//! Instruction sets.

use std::fmt;
use std::str::FromStr;

/// An instruction set for which there are kernels; a later one is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Tables, on any machine.
    Scalar,
    /// x86: SSSE3, SSE4.1 and PCLMULQDQ.
    Sse,
    /// x86: AVX2 and VPCLMULQDQ.
    Avx2,
    /// x86: AVX2, VPCLMULQDQ and GFNI.
    Avx2Gfni,
    /// x86: AVX-512 F, BW and VL, with VPCLMULQDQ and GFNI.
    Avx512,
}

impl Isa {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Sse, Self::Avx2, Self::Avx2Gfni, Self::Avx512];

    /// The name in reports and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Sse => "sse",
            Self::Avx2 => "avx2",
            Self::Avx2Gfni => "avx2-gfni",
            Self::Avx512 => "avx512",
        }
    }

    /// Returns whether this processor has it.
    #[must_use]
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        let sse = is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("pclmulqdq");
        let avx2 = sse && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("vpclmulqdq");
        let gfni = avx2 && is_x86_feature_detected!("gfni");
        match self {
            Self::Scalar => true,
            Self::Sse => sse,
            Self::Avx2 => avx2,
            Self::Avx2Gfni => gfni,
            Self::Avx512 => {
                gfni && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    /// Returns whether this processor has it.
    #[must_use]
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_available(self) -> bool {
        self == Self::Scalar
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
        Self::ALL
            .into_iter()
            .find(|isa| isa.name() == text)
            .ok_or_else(|| format!("'{text}' is no instruction set: scalar, sse, avx2, avx2-gfni or avx512"))
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
