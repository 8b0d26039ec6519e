"""Learning a dialect from what a chat template writes: probes, comparing, one file per family."""
