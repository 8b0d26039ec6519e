"""The grammars of the textual formats: each reads calls from a stream of characters."""
