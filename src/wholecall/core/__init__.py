"""The sans-IO core: from deltas to proven calls. It takes values and returns values."""
