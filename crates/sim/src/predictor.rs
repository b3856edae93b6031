//! An auto-regressive predictor of idle lengths.

/// Number of past lengths that are used.
const ORDER: usize = 4;
const TERMS: usize = ORDER + 1;
/// Weight that a length keeps at each further one.
const FORGET: f64 = 0.999;

/// Predicts the logarithm of the next idle length from the last four, fitted by recursive least
/// squares with forgetting: constant time and memory for each interval. (*Practical scrubbing*,
/// section V, uses AR and ACD models; their orders are not in the text that can be had.)
#[derive(Debug, Clone, PartialEq)]
pub struct Predictor {
    weights: [f64; TERMS],
    covariance: [[f64; TERMS]; TERMS],
    past: [f64; TERMS],
    seen: usize,
}

impl Default for Predictor {
    fn default() -> Self {
        let mut covariance = [[0.0; TERMS]; TERMS];
        (0..TERMS).for_each(|i| covariance[i][i] = 100.0);
        let mut past = [0.0; TERMS];
        past[ORDER] = 1.0;
        Self { weights: [0.0; TERMS], covariance, past, seen: 0 }
    }
}

impl Predictor {
    /// The expected length (the median of the model) of the interval that begins now, in
    /// nanoseconds; 0 before anything was seen.
    #[must_use]
    pub fn expected(&self) -> f64 {
        if self.seen == 0 {
            return 0.0;
        }
        self.linear().clamp(0.0, 43.0).exp()
    }

    fn linear(&self) -> f64 {
        self.weights.iter().zip(&self.past).map(|(w, x)| w * x).sum()
    }

    /// Takes in the length of an interval that has ended, in nanoseconds.
    pub fn observe(&mut self, length: u64) {
        let y = (length.max(1) as f64).ln();
        if self.seen >= ORDER {
            self.fit(y);
        } else {
            // Until the past is full the mean is all there is.
            self.weights[ORDER] += (y - self.weights[ORDER]) / (self.seen + 1) as f64;
        }
        self.past.copy_within(0..ORDER - 1, 1);
        self.past[0] = y;
        self.past[ORDER] = 1.0;
        self.seen += 1;
        if self.seen == ORDER {
            self.weights = [0.0; TERMS];
            self.weights[0] = 0.5;
            self.weights[ORDER] = y * 0.5;
        }
    }

    fn fit(&mut self, y: f64) {
        let mut px = [0.0; TERMS];
        for (row, out) in self.covariance.iter().zip(&mut px) {
            *out = row.iter().zip(&self.past).map(|(p, x)| p * x).sum();
        }
        let scale = FORGET + px.iter().zip(&self.past).map(|(p, x)| p * x).sum::<f64>();
        let error = y - self.linear();
        for (weight, p) in self.weights.iter_mut().zip(&px) {
            *weight += p / scale * error;
        }
        for (row, pi) in self.covariance.iter_mut().zip(&px) {
            for (cell, pj) in row.iter_mut().zip(&px) {
                *cell = ((*cell - pi * pj / scale) / FORGET).clamp(-1e6, 1e6);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternating_load_is_learned() {
        let mut predictor = Predictor::default();
        for i in 0..400 {
            predictor.observe(if i % 2 == 0 { 1_000_000 } else { 1_000_000_000 });
        }
        let short = predictor.expected();
        predictor.observe(1_000_000);
        let long = predictor.expected();
        assert!(short < 2e6 && long > 5e8, "{short} {long}");
    }

    #[test]
    fn nothing_seen_nothing_expected() {
        assert!(Predictor::default().expected().abs() < 1e-12);
    }
}
