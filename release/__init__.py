"""What ``make release`` does; ``python -m release`` runs it."""
