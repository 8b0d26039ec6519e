"""What bench/proxy.py runs side by side: an upstream, a bare pipe, and gateways of others."""
