"""A page that shows calls being built: what happened is kept in a file, what happens is streamed."""
