"""Fixed random features of images, for methods that train a linear model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812

from plusone.errors import InputError

FILTER_SIDE = 9


def random_conv_features(
    images: npt.NDArray[np.uint8], dim: int = 1024, seed: int = 0, batch: int = 64
) -> npt.NDArray[np.float32]:
    """Describes images by a fixed random convolution, for methods that train a linear model.

    The image is halved; smooth random filters of 9 x 9 with mean 0 and norm 1 are applied,
    cut off below a threshold (ReLU), and pooled over the whole image: the first half of the
    features are the filters' largest responses, the second half their mean responses. Nothing
    is learned from data. Each image is first brought to mean 0 and standard deviation 1.

    Args:
        images: uint8 [N, H, W], H and W at least 18.
        dim: Number of features; even.
        seed: Seed of the filters.
        batch: Images at a time, which bounds the memory.

    Returns:
        float32 [N, dim].

    Raises:
        InputError: If the images are not [N, H, W] of at least 18 x 18, or `dim` is not a
            positive even number.
    """
    if images.ndim != 3 or min(images.shape[1:]) < 2 * FILTER_SIDE:
        raise InputError(
            f"The images must be [N, H, W] with sides of at least {2 * FILTER_SIDE} pixels, "
            f"not {list(images.shape)}."
        )
    if dim < 2 or dim % 2:
        raise InputError(f"The number of features must be even and positive, not {dim}.")
    rng = np.random.default_rng(seed)
    raw = torch.from_numpy(
        rng.standard_normal((dim // 2, 1, FILTER_SIDE + 2, FILTER_SIDE + 2), dtype=np.float32)
    )
    filters = F.avg_pool2d(raw, 3, 1)  # smooth: neighbouring weights are alike
    filters -= filters.mean((2, 3), keepdim=True)
    filters /= filters.flatten(1).norm(dim=1)[:, None, None, None]
    features = np.empty((len(images), dim), np.float32)
    with torch.no_grad():
        for start in range(0, len(images), batch):
            x = torch.from_numpy(np.ascontiguousarray(images[start : start + batch])).float()
            x = x - x.mean((1, 2), keepdim=True)
            x = x / (x.flatten(1).std(1)[:, None, None] + 1.0)
            response = F.conv2d(F.avg_pool2d(x[:, None], 2), filters, stride=2)
            pooled = [response.amax((2, 3)), F.relu(response - 1.0).mean((2, 3))]
            features[start : start + batch] = torch.cat(pooled, 1).numpy()
    return features
