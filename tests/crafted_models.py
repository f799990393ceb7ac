"""Model files that ``save_model`` would not write."""

from dm2l.persistence._model import write_file
from dm2l.persistence._writing import Writer


def taken_apart(model):
    """The manifest of a model, and its arrays by their names."""
    writer = Writer()
    return writer.write(model, type(model).__name__), writer.arrays


def save_unchecked(model, path):
    """Save a model without a look at whether it would load."""
    write_file(path, *taken_apart(model))
