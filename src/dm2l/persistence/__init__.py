"""Models in files that are safe to load, wherever they came from.

A model file is a zip archive of arrays and a JSON manifest; pickle takes no part.
"""

from dm2l.persistence._archive import ModelFileError
from dm2l.persistence._model import load_model, save_model

__all__ = ["ModelFileError", "load_model", "save_model"]
