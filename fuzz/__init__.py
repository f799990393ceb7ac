"""Damaged and hostile input for everything that reads: ``python -m fuzz --minutes 60``."""
