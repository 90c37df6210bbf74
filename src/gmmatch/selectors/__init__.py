"""Methods that choose rows: one file each, one contract (`base`), one list (`registry`)."""

from .base import Selector
from .easy import Easy
from .facility_location import FacilityLocation
from .gm_matching import GMMatching
from .hard import Hard
from .herding import Herding
from .k_center import KCenter
from .moderate import Moderate
from .optimization import Optimization
from .random import Random
from .registry import METHODS, find_method, methods
from .self_supervised import SelfSupervised
from .stratified import Stratified
from .top_scores import TopScores

__all__ = [
    "METHODS",
    "Easy",
    "FacilityLocation",
    "GMMatching",
    "Hard",
    "Herding",
    "KCenter",
    "Moderate",
    "Optimization",
    "Random",
    "SelfSupervised",
    "Selector",
    "Stratified",
    "TopScores",
    "find_method",
    "methods",
]
