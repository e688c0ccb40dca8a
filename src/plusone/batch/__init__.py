"""Features and tags of items on any storage, batch by batch, in processes or on a Ray cluster."""

from plusone.batch.engines import Job, run_job
from plusone.batch.functions import FeatureBatches, TagBatches

__all__ = ["FeatureBatches", "Job", "TagBatches", "run_job"]
