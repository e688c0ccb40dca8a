"""Multi-label scenes made of scikit-learn's handwritten digits: a data set with no download.

Every scene is a 64 x 64 grey canvas with a few handwritten digits on clutter, and its label is
the set of digits on it. The pixels are real handwriting (1797 images of 8 x 8, shipped inside
scikit-learn), so there is something to learn, and the truth is complete by construction, so
that the cost of seeing one positive label per item can be measured.
"""

from plusone.data.digits.features import random_conv_features
from plusone.data.digits.load import Digits, load_digits_scenes
from plusone.data.digits.look import LOOK, Look
from plusone.data.digits.scenes import Scenes, compose
from plusone.data.digits.sources import CLASSES, SIZE, SPLITS, source_indices

__all__ = [
    "CLASSES",
    "LOOK",
    "SIZE",
    "SPLITS",
    "Digits",
    "Look",
    "Scenes",
    "compose",
    "load_digits_scenes",
    "random_conv_features",
    "source_indices",
]
