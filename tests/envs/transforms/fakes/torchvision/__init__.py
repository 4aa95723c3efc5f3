"""A small stand-in for torchvision, for tests only; see ``tests/envs/transforms/conftest.py``."""
