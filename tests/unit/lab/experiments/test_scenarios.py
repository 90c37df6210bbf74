import numpy as np
import pytest

from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.lab.experiments.scenarios import contaminated, damage, parse_scenario

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (200, 12, 12), dtype=np.uint8)
LABELS = np.arange(200) % 4


@pytest.mark.parametrize(
    "name", ["labels", "labels-", "labels-101", "labels-0", "gross-50", "human-", "mess"]
)
def test_names_that_mean_nothing_are_refused(name) -> None:
    with pytest.raises(InvalidParameter, match="there is no scenario"):
        parse_scenario(name)


def test_wrong_labels_are_as_many_as_asked_and_the_images_stay() -> None:
    given = damage(parse_scenario("labels-35"), IMAGES, LABELS, seed=3)
    assert given.inputs is IMAGES
    np.testing.assert_array_equal(given.corrupted, given.labels != LABELS)
    assert given.corrupted.sum() == 70


def test_damaged_images_are_as_many_as_asked_and_the_labels_stay() -> None:
    given = damage(parse_scenario("images-10"), IMAGES, LABELS, seed=3)
    np.testing.assert_array_equal(given.corrupted, (given.inputs != IMAGES).any(axis=(1, 2)))
    assert given.corrupted.sum() == 20
    np.testing.assert_array_equal(given.labels, LABELS)


def test_human_labels_are_corrupted_where_they_differ() -> None:
    human = {"worst": (LABELS + (np.arange(200) < 50)) % 4}
    given = damage(parse_scenario("human-worst"), IMAGES, LABELS, seed=0, human=human)
    np.testing.assert_array_equal(given.corrupted, np.arange(200) < 50)
    with pytest.raises(InvalidInput, match="no human labels 'best'; it has: worst"):
        damage(parse_scenario("human-best"), IMAGES, LABELS, seed=0, human=human)


def test_gross_contamination_changes_features_and_leaves_the_images() -> None:
    scenario = parse_scenario("gross-45")
    given = damage(scenario, IMAGES, LABELS, seed=1)
    rows = IMAGES.reshape(200, -1).astype(np.float32)
    changed, mask = contaminated(scenario, rows, given, seed=1)
    assert mask.sum() == 90
    np.testing.assert_array_equal(mask, (changed != rows).any(axis=1))
    assert given.inputs is IMAGES


def test_clean_data_is_left_alone() -> None:
    given = damage(parse_scenario("clean"), IMAGES, LABELS, seed=1)
    assert given.inputs is IMAGES
    assert given.labels is LABELS
    assert given.corrupted is None


def test_attacks_and_damaged_images_say_what_they_need() -> None:
    rows = np.zeros((200, 3), dtype=np.float32)
    with pytest.raises(InvalidParameter, match="damages images, and the data has none"):
        damage(parse_scenario("images-20"), rows, LABELS, seed=0)
    with pytest.raises(InvalidParameter, match="it needs one as proxy"):
        damage(parse_scenario("pgd"), IMAGES, LABELS, seed=0)
