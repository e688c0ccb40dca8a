"""The small runs of the tests of the service, and commands in this process."""

from tests.cli.conftest import cli
from tests.serve.conftest import feature_run, features, image_run, photos

__all__ = ["cli", "feature_run", "features", "image_run", "photos"]
