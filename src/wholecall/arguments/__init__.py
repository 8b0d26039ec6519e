"""Arguments of a call: parsed, repaired, coerced, validated against the tool's schema, and
explained to the model.
"""
