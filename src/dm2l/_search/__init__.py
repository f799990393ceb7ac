"""Search for ``lambda_d``, ``alpha`` and ``gamma`` by cross-validation; fits share work."""
