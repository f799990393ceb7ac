"""Search for ``lambda_d``, ``alpha`` and ``gamma`` by cross-validation with shared computations."""
