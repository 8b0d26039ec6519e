"""What surrounds every request: middleware, keys, limits, refusals, disconnects, shutdown."""
