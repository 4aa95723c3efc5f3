"""Environments of other libraries, one package a library."""
