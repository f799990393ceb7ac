"""A classifier that ends its process, in a module of its own: other processes import it by name."""

import os
import signal
from pathlib import Path

from dm2l.baselines import MaskedRidgeClassifier


class Fatal(MaskedRidgeClassifier):
    """Ends its process: always, or, where it has a file to make, until that is there."""

    def __init__(self, alpha=1.0, file=None):
        super().__init__(alpha)
        self.file = file

    def fit(self, X, Y, label_mask=None):
        if self.file is None or not Path(self.file).exists():
            if self.file is not None:
                Path(self.file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, Y, label_mask)
