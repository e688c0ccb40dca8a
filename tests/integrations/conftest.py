"""The small runs of the tests of the service."""

from tests.serve.conftest import feature_run, features, image_run, photos

__all__ = ["feature_run", "features", "image_run", "photos"]
