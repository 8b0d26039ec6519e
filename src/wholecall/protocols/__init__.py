"""One folder per API wire format. Each decodes its chunks to the same deltas."""
