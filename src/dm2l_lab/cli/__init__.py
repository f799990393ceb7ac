"""The commands ``dm2l experiment``."""
