"""Scores that come out of a training run: forgetting, EL2N, GraNd, influence (extra ``torch``).

Every signal gives one float64 score per row, and a higher score means a harder or weightier row.
Importing this package does not import torch; training a network does.
"""

from typing import TYPE_CHECKING

from ..lazy import needing_torch
from ..optimization import LeastChange, keep_least_change
from .influence import Influence, parameter_influence
from .runs import EARLY, SIGNALS, SignalRun, influence_of_rows, score_rows, train_run, train_runs
from .scores import el2n_scores, forgetting_scores, load_scores, save_scores
from .selecting import Trained, train_for_selection

if TYPE_CHECKING:
    from .grand import grand_scores

__all__ = [
    "EARLY", "SIGNALS", "Influence", "LeastChange", "SignalRun", "Trained", "el2n_scores",
    "forgetting_scores", "grand_scores", "influence_of_rows", "keep_least_change", "load_scores",
    "parameter_influence", "save_scores", "score_rows", "train_for_selection", "train_run", "train_runs",
]  # fmt: skip


__getattr__ = needing_torch(__name__, {"grand": ("grand_scores",)})
