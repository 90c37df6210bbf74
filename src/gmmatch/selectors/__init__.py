"""Methods that choose rows: one file each, one contract (`base`), one list (`registry`)."""

from ..matching.groups import Group, Picks
from .base import Selector
from .easy import Easy
from .facility_location import FacilityLocation
from .gm_matching import GMMatching
from .hard import Hard
from .herding import Herding
from .k_center import KCenter
from .moderate import Moderate
from .random import Random
from .registry import METHODS, Method, find_method, methods, register_method
from .self_supervised import SelfSupervised
from .small_loss import SmallLoss
from .stratified import Stratified
from .top_scores import TopScores

__all__ = [
    "METHODS", "Easy", "FacilityLocation", "GMMatching", "Group", "Hard", "Herding", "KCenter", "Method",
    "Moderate", "Picks", "Random", "SelfSupervised", "Selector", "SmallLoss", "Stratified",
    "TopScores", "find_method", "methods", "register_method",
]  # fmt: skip
