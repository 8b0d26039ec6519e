"""Calls that models write as text: one engine, formats as declarations."""
