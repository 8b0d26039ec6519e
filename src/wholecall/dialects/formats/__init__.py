"""The formats: one small file for each family, nothing in it but declarations."""
