"""Taps on what happens to requests: access log, metrics, traces, inspector."""
