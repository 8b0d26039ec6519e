"""One file per endpoint."""
