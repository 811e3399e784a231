"""Modules whose intermediate results are computed again in backward."""
