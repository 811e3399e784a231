"""Activation checkpointing: modules whose intermediate results are recomputed in backward."""
