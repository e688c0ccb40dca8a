"""Labels, observation schemes, readers and the embedded data."""

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import SCHEMES, Observation, observe, observe_table
from plusone.data.table import LabelTable, hold_out_validation
from plusone.data.text_encoder import TextEncoder

__all__ = [
    "SCHEMES",
    "Dataset",
    "LabelMatrix",
    "LabelTable",
    "Observation",
    "TextEncoder",
    "hold_out_validation",
    "observe",
    "observe_table",
]
