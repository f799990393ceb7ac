"""A classifier with demands, in a module of its own: other processes import it by its name."""

from sklearn.linear_model import LogisticRegression


class Fussy(LogisticRegression):
    """Refuses labels with fewer than nine positives."""

    def fit(self, X, y):
        if y.sum() < 9:
            raise ArithmeticError("too few")
        return super().fit(X, y)
