"""Requests as the bodies that are sent: one file per protocol."""
