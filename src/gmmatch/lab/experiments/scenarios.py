"""What is done to the training data, by name: `clean`, `images-20`, `labels-35`, `human-worst`, ..."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import FloatArray, IntArray, Mask
from ...errors import InvalidInput, InvalidParameter
from ...validation import nearest
from ..corrupt import attack, contaminate, corrupt_images, corrupt_labels

SHARED = ("images", "labels", "gross")
ATTACKS = ("pgd", "fgsm")
FORMS = "clean, images-20, labels-20, gross-20 (any percentage), human-NAME, pgd, fgsm"


@dataclass(frozen=True)
class Scenario:
    """One kind of damage."""

    name: str  # as in a spec: the kind, and after a dash the percentage or the name of a set of labels
    kind: str  # ``clean``, ``images``, ``labels``, ``gross``, ``human``, ``pgd`` or ``fgsm``
    # Share of the rows that is damaged; 1 for attacks, which change every image, and 0 where nothing is
    # drawn.
    share: float = 0.0
    labels: str | None = None  # which set of human labels

    @property
    def seeded(self) -> bool:
        """Whether another seed damages other rows."""
        return self.kind not in ("clean", "human")

    @property
    def needs_images(self) -> bool:
        """Whether it changes pixels."""
        return self.kind in ("images", *ATTACKS)


def parse_scenario(name: str) -> Scenario:
    """Return the scenario of that name."""
    if name == "clean":
        return Scenario(name, name)
    if name in ATTACKS:
        return Scenario(name, name, share=1.0)
    found = re.fullmatch(r"(images|labels|gross)-(\d+(?:\.\d+)?)", name)
    if found and 0 < float(found[2]) <= (49.9 if found[1] == "gross" else 100):
        return Scenario(name, found[1], share=float(found[2]) / 100)
    if name.startswith("human-") and name != "human-":
        return Scenario(name, "human", labels=name.removeprefix("human-"))
    known = ("clean", *ATTACKS, "images-20", "labels-20", "gross-20", "human-worst")
    raise InvalidParameter(f"there is no scenario {name!r}{nearest(name, known)}; expected {FORMS}")


@dataclass(frozen=True, eq=False)
class Given:
    """The training data as a method gets it."""

    inputs: npt.NDArray[Any]  # uint8 images, or rows of numbers where the dataset has no images
    labels: IntArray  # class numbers, some of them wrong perhaps
    corrupted: Mask | None  # which rows are damaged; None where nothing is


def damage(
    scenario: Scenario,
    inputs: npt.NDArray[Any],
    labels: IntArray,
    seed: int,
    *,
    severity: int = 3,
    human: dict[str, IntArray] | None = None,
    attacked: Any = None,
) -> Given:
    """Return the data under a scenario; `gross` changes features and leaves these as they are.

    `inputs`, `labels`: the data as it should be. `seed`: of the damage. `severity`: of damaged images, 1 to
    5. `human`: sets of labels as people gave them, by name. `attacked`: the network that attacks are made on.
    """
    if scenario.needs_images and inputs.dtype != np.uint8:
        raise InvalidParameter(f"scenario {scenario.name!r} damages images, and the data has none")
    if scenario.kind == "images":
        images, mask = corrupt_images(inputs, scenario.share, severity=severity, rng=seed)
        return Given(images, labels, mask)
    if scenario.kind == "labels":
        wrong, mask = corrupt_labels(labels, scenario.share, rng=seed)
        return Given(inputs, wrong.astype(np.int64), mask)
    if scenario.kind == "human":
        known = human or {}
        if scenario.labels not in known:
            raise InvalidInput(
                f"the data has no human labels {scenario.labels!r}; it has: {', '.join(known) or 'none'}"
            )
        given = known[scenario.labels]
        return Given(inputs, given, given != labels)
    if scenario.kind in ATTACKS:
        if attacked is None:
            raise InvalidParameter(
                f"scenario {scenario.name!r} attacks a trained network; it needs one as proxy"
            )
        images, mask = attack(attacked, inputs, labels, kind=scenario.kind, rng=seed)
        return Given(np.asarray(images), labels, mask)
    return Given(inputs, labels, None)


def contaminated(
    scenario: Scenario, rows: FloatArray, given: Given, seed: int
) -> tuple[FloatArray, Mask | None]:
    """Return the features under a scenario, and which rows are damaged in all."""
    if scenario.kind != "gross":
        return rows, given.corrupted
    changed, mask = contaminate(rows, scenario.share, kind="far-cluster", rng=seed)
    return changed, mask
