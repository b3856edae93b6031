//! Service time of a drive for a background request of a given size.

use crate::Nanos;
use thiserror::Error;

/// The request sizes that are considered: 64 KiB (below it a VERIFY takes as long) to 4 MiB (above
/// it nothing is gained). *Practical scrubbing*, section IV.A.
pub const SIZES: [u64; 7] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// Points a curve has at most.
const POINTS: usize = 16;

/// A curve that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CurveError {
    /// No points, or more than 16.
    #[error("a curve of service times has 1 to 16 points, not {0}")]
    Points(usize),
    /// Sizes must grow, and no time is 0.
    #[error("point {0} of the curve of service times: sizes grow from point to point, and no time is 0")]
    Order(usize),
}

/// Service time by request size: linear between points, proportional past the last.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceCurve {
    bytes: [u64; POINTS],
    nanos: [f64; POINTS],
    /// Measurements of each point, as far as they matter: a guess counts as none.
    seen: [u32; POINTS],
    len: usize,
}

/// Measurements after which a point moves an eighth of the way only.
const SETTLED: u32 = 7;

impl ServiceCurve {
    /// A curve through points of (bytes, nanoseconds).
    ///
    /// # Errors
    /// If there are no points or too many, where sizes do not grow, or where a time is 0.
    pub fn new(points: &[(u64, Nanos)]) -> Result<Self, CurveError> {
        if points.is_empty() || points.len() > POINTS {
            return Err(CurveError::Points(points.len()));
        }
        let (bytes, nanos) = ([0; POINTS], [0.0; POINTS]);
        let mut curve = Self { bytes, nanos, seen: [SETTLED; POINTS], len: points.len() };
        for (i, &(bytes, nanos)) in points.iter().enumerate() {
            if nanos == 0 || bytes == 0 || (i > 0 && bytes <= points[i - 1].0) {
                return Err(CurveError::Order(i));
            }
            (curve.bytes[i], curve.nanos[i]) = (bytes, nanos as f64);
        }
        Ok(curve)
    }

    /// A curve that was guessed: the first measurement of a point counts for all of it, or half
    /// where it is slower, and points that nothing was measured of follow the others in proportion.
    /// Or else a size that the guess makes look slow would never be tried.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn guess(points: &[(u64, Nanos)]) -> Result<Self, CurveError> {
        Ok(Self { seen: [0; POINTS], ..Self::new(points)? })
    }

    /// Expected service time of a request of `bytes`, in nanoseconds.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Nanos {
        let last = self.len - 1;
        let i = self.bytes[..self.len].partition_point(|&b| b < bytes);
        if i == 0 {
            return self.nanos[0] as Nanos;
        }
        if i > last {
            let slope = self.nanos[last] / self.bytes[last] as f64;
            return (slope * bytes as f64) as Nanos;
        }
        let (b0, b1) = (self.bytes[i - 1] as f64, self.bytes[i] as f64);
        let (t0, t1) = (self.nanos[i - 1], self.nanos[i]);
        (t0 + (t1 - t0) * (bytes as f64 - b0) / (b1 - b0)).round() as Nanos
    }

    /// Takes in a measurement: a background request of `bytes` took `took` nanoseconds. The nearest
    /// point moves an eighth of the way; a guessed one further at first.
    pub fn observe(&mut self, bytes: u64, took: Nanos) {
        let points = &self.bytes[..self.len];
        let i = points.partition_point(|&b| b < bytes).min(self.len - 1);
        let i = if i > 0 && points[i].abs_diff(bytes) > points[i - 1].abs_diff(bytes) { i - 1 } else { i };
        let expected = self.time(bytes) as f64;
        // Faster than guessed, it is believed at once; slower, by half at first: all drives may
        // have begun together, and by a time that is much too long nothing would be worth starting
        // any more, and nothing measured again.
        let parts = if self.seen[i] == 0 && took as f64 > expected { 2 } else { self.seen[i] + 1 };
        let times = 1.0 + (took as f64 / expected - 1.0) / f64::from(parts);
        self.seen[i] = (self.seen[i] + 1).min(SETTLED);
        for (j, nanos) in self.nanos[..self.len].iter_mut().enumerate() {
            if j == i || self.seen[j] == 0 {
                *nanos = (*nanos * times).max(1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_through_its_points() -> Result<(), CurveError> {
        let curve = ServiceCurve::new(&[(65_536, 4_610_000), (131_072, 5_327_000)])?;
        assert_eq!(curve.time(4_096), 4_610_000);
        assert_eq!(curve.time(65_536), 4_610_000);
        assert_eq!(curve.time(98_304), 4_968_500);
        assert_eq!(curve.time(262_144), 10_654_000);
        Ok(())
    }

    #[test]
    fn a_curve_learns() -> Result<(), CurveError> {
        let mut curve = ServiceCurve::new(&[(65_536, 1_000_000), (1 << 20, 2_000_000)])?;
        (0..200).for_each(|_| curve.observe(65_536, 5_000_000));
        assert!(curve.time(65_536).abs_diff(5_000_000) < 10_000);
        assert_eq!(curve.time(1 << 20), 2_000_000);
        Ok(())
    }

    #[test]
    fn what_was_guessed_follows_what_is_measured() -> Result<(), CurveError> {
        let mut curve =
            ServiceCurve::guess(&[(65_536, 1_000_000), (1 << 20, 4_000_000), (4 << 20, 12_000_000)])?;
        curve.observe(1 << 20, 1_000_000);
        assert_eq!(
            (curve.time(65_536), curve.time(1 << 20), curve.time(4 << 20)),
            (250_000, 1_000_000, 3_000_000)
        );
        (0..40).for_each(|_| curve.observe(4 << 20, 3_600_000));
        assert!(curve.time(4 << 20).abs_diff(3_600_000) < 1_000);
        assert_eq!(curve.time(1 << 20), 1_000_000, "what was measured stays");
        Ok(())
    }

    #[test]
    fn one_slow_measurement_does_not_make_all_sizes_hopeless() -> Result<(), CurveError> {
        let mut curve = ServiceCurve::guess(&[(65_536, 1_000_000), (2 << 20, 7_000_000)])?;
        curve.observe(2 << 20, 49_000_000);
        assert_eq!((curve.time(2 << 20), curve.time(65_536)), (28_000_000, 4_000_000));
        curve.observe(65_536, 100_000);
        assert_eq!(curve.time(65_536), 100_000, "a faster one is believed at once");
        Ok(())
    }

    #[test]
    fn senseless_curves_are_refused() {
        assert_eq!(ServiceCurve::new(&[]), Err(CurveError::Points(0)));
        assert_eq!(ServiceCurve::new(&[(1, 1), (1, 2)]), Err(CurveError::Order(1)));
        assert_eq!(ServiceCurve::new(&[(1, 0)]), Err(CurveError::Order(0)));
    }
}
