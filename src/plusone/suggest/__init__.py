"""Finding the labels that nobody gave, with probabilities that can be taken at their word."""

from plusone.suggest.folder import read_suggestions, write_suggestions
from plusone.suggest.suggestions import Suggestions

__all__ = ["Suggestions", "read_suggestions", "write_suggestions"]
