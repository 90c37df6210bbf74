"""Networks, recipes and the training loop (extra ``torch``).

Recipes, configurations, image files and the linear probe need no torch; everything else loads it
when it is first asked for.
"""

from typing import TYPE_CHECKING

from ..lazy import needing_torch
from .config import NETWORKS, TrainConfig, load_config
from .images import as_images, read_images
from .probe import LinearProbe, early_stopped_probe, linear_probe
from .recipes import RECIPES, Recipe

if TYPE_CHECKING:
    from .checkpoint import Checkpoint, load_checkpoint, save_checkpoint
    from .inference import Evaluation, evaluate, features, predict, resolve_device
    from .loop import TrainingRun, train
    from .networks import Network, build_network, replace_head

__all__ = [
    "NETWORKS", "RECIPES", "Checkpoint", "Evaluation", "LinearProbe", "Network", "Recipe", "TrainConfig",
    "TrainingRun", "build_network", "early_stopped_probe", "evaluate", "features", "linear_probe",
    "load_checkpoint", "load_config", "predict", "as_images", "read_images", "replace_head",
    "resolve_device", "save_checkpoint", "train",
]  # fmt: skip

_NEEDS_TORCH = {
    "checkpoint": ("Checkpoint", "load_checkpoint", "save_checkpoint"),
    "inference": ("Evaluation", "evaluate", "features", "predict", "resolve_device"),
    "loop": ("TrainingRun", "train"),
    "networks": ("Network", "build_network", "replace_head"),
}
__getattr__ = needing_torch(__name__, _NEEDS_TORCH)


def __dir__() -> list[str]:
    return __all__
