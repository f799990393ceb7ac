"""Ensemble of the library's models: :class:`dm2l.AutoClassifier`."""
