"""Search for ``lambda_d``, ``alpha`` and ``gamma`` by cross-validation on shared factorizations."""
