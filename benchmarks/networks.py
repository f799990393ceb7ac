"""A network with one hidden layer for labels with missing entries, trained with dm2l.torch."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator
from torch import nn

from dm2l.torch import masked_loss, rank_terms


@dataclass(eq=False, repr=False)
class Network(BaseEstimator):
    """The number of epochs is chosen on a fifth of the rows, by the loss of observed labels.

    ``terms`` is the weight of the nuclear norms, which are computed on ``where``.
    """

    loss: str = "logistic"
    terms: float = 0.0
    where: str = "scores"  # or "embeddings"
    weight_decay: float = 0.1
    hidden: int = 64
    epochs: int = 100
    patience: int = 10
    batch: int = 64
    random_state: int = 0

    def fit(self, X: Any, Y: Any) -> Self:
        torch.set_num_threads(1)
        torch.manual_seed(self.random_state)
        rng = np.random.default_rng(self.random_state)
        order = rng.permutation(len(Y))
        held, train = np.split(order, [len(Y) // 5])
        Z = _tensor(X)
        self.body_ = nn.Sequential(
            nn.Linear(Z.shape[1], self.hidden), nn.BatchNorm1d(self.hidden), nn.ReLU()
        )
        self.head_ = nn.Sequential(nn.Dropout(0.3), nn.Linear(self.hidden, Y.shape[1]))
        both = nn.ModuleList([self.body_, self.head_])
        optimizer = torch.optim.AdamW(both.parameters(), 3e-3, weight_decay=self.weight_decay)
        best, since, self.validation_loss_ = None, 0, np.inf
        for _ in range(self.epochs):
            both.train()
            for rows in np.array_split(rng.permutation(train), max(1, len(train) // self.batch)):
                E = self.body_(Z[rows])
                S = self.head_(E)
                total = masked_loss(S, Y[rows], loss=self.loss)
                if self.terms:
                    part = S if self.where == "scores" else E
                    total = total + self.terms * rank_terms(part, Y[rows])
                optimizer.zero_grad()
                (total / len(rows)).backward()
                optimizer.step()
            with torch.no_grad():
                S = self.head_.eval()(self.body_.eval()(Z[held]))
                found = float(masked_loss(S, Y[held], loss=self.loss))
            since += 1
            if found < self.validation_loss_:
                best, since, self.validation_loss_ = copy.deepcopy(both.state_dict()), 0, found
            if since == self.patience:
                break
        both.load_state_dict(best)
        return self

    def decision_function(self, X: Any) -> Any:
        with torch.no_grad():
            return self.head_(self.body_(_tensor(X))).double().numpy()

    def predict_proba(self, X: Any) -> Any:
        return 1 / (1 + np.exp(-self.decision_function(X)))


def _tensor(X: Any) -> Any:
    return torch.as_tensor(X.toarray() if sp.issparse(X) else X, dtype=torch.float32)
