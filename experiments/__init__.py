"""Experiments with dm2l: the paper's protocols, its tables and figures, and the generated pages.

Run from the root of the repository: ``python -m experiments --help``.
"""
