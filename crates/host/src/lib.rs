//! The host side: array assembly, scrub methods, verdicts, repair with its journal, progress that survives.
