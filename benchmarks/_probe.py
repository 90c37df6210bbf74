"""Linear softmax probes: what a subset teaches, measured on clean test rows.

Two of them, because they answer differently to wrong labels. `converged` is fitted until its training
loss no longer falls (hardly any regularisation), so that it learns wrong labels by heart. `early` holds out
a tenth of the given rows, with the labels as they are, and keeps the weights at which the loss there was
lowest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[np.float32]

_L2 = 1e-5
_CONVERGED_STEPS = 150
_EARLY_STEPS = 60
_STRIDE = 3
_PATIENCE = 4


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy in percent of the two probes."""

    converged: float
    early: float


class Probe:
    """Probes on features standardised once and for all, with the statistics of uncorrupted rows."""

    def __init__(self, reference: Array, test: Array, test_labels: npt.NDArray[np.int64]) -> None:
        self.mean = reference.mean(axis=0)
        self.scale = float(reference.std(axis=0).mean())
        self.test = self._tensor(test)
        self.labels = torch.from_numpy(test_labels)
        self.n_classes = int(test_labels.max()) + 1

    def _tensor(self, rows: Array) -> torch.Tensor:
        return torch.from_numpy((rows - self.mean) / self.scale)

    def score(self, rows: Array, labels: npt.NDArray[np.int64], seed: int = 0) -> Accuracy:
        """Train both probes on the rows and return their accuracy on the test rows."""
        inputs, targets = self._tensor(rows), torch.from_numpy(labels.astype(np.int64))
        held = np.random.default_rng(seed).permutation(len(rows)) < max(self.n_classes, len(rows) // 10)
        mask = torch.from_numpy(held)
        early = self._fit(inputs[~mask], targets[~mask], _EARLY_STEPS, inputs[mask], targets[mask])
        return Accuracy(self._accuracy(self._fit(inputs, targets, _CONVERGED_STEPS)), self._accuracy(early))

    def _accuracy(self, weights: torch.Tensor) -> float:
        predicted = (self.test @ weights[:-1] + weights[-1]).argmax(dim=1)
        return 100.0 * float((predicted == self.labels).float().mean())

    def _fit(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        steps: int,
        held_inputs: torch.Tensor | None = None,
        held_targets: torch.Tensor | None = None,
    ) -> torch.Tensor:
        weights = torch.zeros(inputs.shape[1] + 1, self.n_classes, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [weights], max_iter=_STRIDE, history_size=10, line_search_fn="strong_wolfe"
        )

        def loss_of(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(rows @ weights[:-1] + weights[-1], labels)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(inputs, targets) + _L2 / 2 * (weights[:-1] ** 2).sum()
            loss.backward()
            return loss

        best, best_loss, misses, last = weights.detach().clone(), np.inf, 0, np.inf
        for _ in range(0, steps, _STRIDE):
            loss = float(optimizer.step(closure).detach())
            if held_inputs is None or held_targets is None:
                best = weights.detach()
                if loss >= last * (1 - 1e-4):
                    break
                last = loss
                continue
            with torch.no_grad():
                held_loss = float(loss_of(held_inputs, held_targets))
            if held_loss < best_loss:
                best, best_loss, misses = weights.detach().clone(), held_loss, 0
            else:
                misses += 1
                if misses >= _PATIENCE:
                    break
        return best
