"""Steps as bytes: one writer a protocol.

These are not the encoders of a client or a proxy. What they write is meant to be as wrong as
the script says, byte for byte, so they check nothing and correct nothing.
"""
