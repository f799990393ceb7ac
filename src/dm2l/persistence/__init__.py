"""Model files that are safe to load even from untrusted sources.

A model file is a zip archive of arrays and a JSON manifest; it does not use pickle.
"""

from dm2l.persistence._archive import ModelFileError
from dm2l.persistence._model import load_model, save_model

__all__ = ["ModelFileError", "load_model", "save_model"]
