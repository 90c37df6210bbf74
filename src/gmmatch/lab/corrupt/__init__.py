"""Make data wrong on purpose, exactly and repeatably, to test what a selection is worth.

Every function leaves its input alone and returns the corrupted copy and a mask of what was changed.
"""

from .attacks import ATTACK_KINDS, attack, fgsm, pgd
from .contamination import CONTAMINATION_KINDS, contaminate
from .images import (
    IMAGE_KINDS,
    corrupt_images,
    damage_images,
    fog,
    gaussian_noise,
    motion_blur,
    occlusion,
    resolution,
)
from .labels import LABEL_KINDS, corrupt_labels

__all__ = [
    "ATTACK_KINDS", "CONTAMINATION_KINDS", "IMAGE_KINDS", "LABEL_KINDS", "attack", "contaminate",
    "corrupt_images", "corrupt_labels", "damage_images", "fgsm", "fog", "gaussian_noise", "motion_blur",
    "occlusion", "pgd", "resolution",
]  # fmt: skip
