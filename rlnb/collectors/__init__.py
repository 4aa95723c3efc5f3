"""Loops over environments, and what becomes of the batches that they collect."""
