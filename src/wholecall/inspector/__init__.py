"""A page that shows calls being built: what happens is streamed, what happened is kept."""
