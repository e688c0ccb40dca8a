"""Heads: from the features of a backbone to one logit per class.

`LinearHead` pools the features, `SpatialHead` also gives class maps, `LabelwiseHead` an embedding
per class.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from plusone.types import Outputs


class Head(nn.Module):
    """The part of a model above the backbone."""

    width_inside: int = 1  # size per item of the largest activation, if it is large
    deterministic: bool = False  # whether the same features always give the same outputs
    pooling: str = "mean"  # what `pool` does, for the key of cached features

    def pool(self, features: Tensor) -> Tensor:
        """Reduces the backbone's output to what this head needs; this is what gets cached.

        A feature map `[B, D, h, w]` and tokens `[B, T, D]` are averaged to `[B, D]`; vectors pass
        unchanged.
        """
        return pooled(features)

    def forward(self, features: Tensor) -> Outputs:
        raise NotImplementedError(f"{type(self).__name__} must define forward()")


def pooled(features: Tensor) -> Tensor:
    """Vectors `[B, D]`: means of a feature map `[B, D, h, w]` or of tokens `[B, T, D]`."""
    if features.ndim == 3:
        return features.mean(dim=1)
    return features.mean(dim=(2, 3)) if features.ndim == 4 else features


class LinearHead(Head):
    """One linear layer on pooled features."""

    deterministic = True

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_classes)

    @property
    def weight(self) -> Tensor:
        """`[L, D]`."""
        return self.linear.weight

    @property
    def bias(self) -> Tensor:
        """`[L]`."""
        return self.linear.bias

    def forward(self, features: Tensor) -> Outputs:
        return Outputs(self.linear(features), features)


class SpatialHead(Head):
    """One linear layer at every position; the logits are the means of the maps.

    Names and shapes of its weights are those of `LinearHead`.

    Args:
        dim: Channels of the feature map, D.
        n_classes: L.
        boost: Factor of the positive entries of the maps (BoostLU, Kim et al. 2023, CVPR,
            https://arxiv.org/abs/2304.01804); 1 leaves them as they are.
    """

    pooling = "none"

    def __init__(self, dim: int, n_classes: int, *, boost: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_classes)
        self.boost = boost

    def pool(self, features: Tensor) -> Tensor:
        """Keeps the map; cached features take h x w times the memory."""
        return features

    def forward(self, features: Tensor) -> Outputs:
        """Maps `[B, L, h, w]` of a map `[B, D, h, w]`, `[B, L, 1, T]` of tokens `[B, T, D]`.

        Vectors `[B, D]` have no positions and so no maps.
        """
        if features.ndim == 2:
            return Outputs(self.linear(features), features)
        if features.ndim == 3:
            maps = self.linear(features).transpose(1, 2).unsqueeze(2)
        else:
            maps = conv2d(features, self.linear.weight[:, :, None, None], self.linear.bias)
        if self.boost != 1:
            maps = torch.where(maps > 0, self.boost * maps, maps)
        return Outputs(maps.mean(dim=(2, 3)), features, maps=maps)


class LabelwiseHead(Head):
    """One embedding and one logit per class.

    Args:
        dim: D, channels of the backbone's features.
        n_classes: L.
        width: Size of tokens and embeddings.
        heads: Attention heads.
        feedforward: Hidden size of the feed-forward networks.
        encoder_layers: Self-attention layers over the tokens.
        decoder_layers: Cross-attention layers of the class queries.
        dropout: Share of activations dropped in training.
    """

    pooling = "none"

    def __init__(
        self,
        dim: int,
        n_classes: int,
        *,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        encoder_layers: int = 1,
        decoder_layers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.reduce = nn.Linear(dim, width)
        sizes = (width, heads, feedforward, dropout)
        self.encoder = nn.ModuleList(Block(*sizes) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(Block(*sizes) for _ in range(decoder_layers))
        self.queries = nn.Parameter(torch.randn(n_classes, width))
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(n_classes, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_classes))
        self.width_inside = n_classes * max(width, feedforward)

    def pool(self, features: Tensor) -> Tensor:
        """Keeps all positions for the attention."""
        return features

    def forward(self, features: Tensor) -> Outputs:
        """From `[B, D, h, w]`, `[B, T, D]` or `[B, D]` to logits, embeddings and maps."""
        embeddings, maps = self.attend(features)
        logits = (embeddings * self.weight).sum(2) + self.bias
        return Outputs(logits, features, embeddings, maps)

    def attend(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """An embedding of each class `[B, L, width]`, and where it looked `[B, L, h, w]`."""
        tokens, grid = as_tokens(features)
        x = self.reduce(tokens)
        positions = sine_positions(*grid, x.shape[2], x) if features.ndim == 4 else x.new_zeros(())
        for block in self.encoder:
            x, _ = block(x, x + positions, x, positions)
        embeddings = x.new_zeros(x.shape[0], *self.queries.shape)
        maps = x.new_zeros(x.shape[0], len(self.queries), x.shape[1])
        for block in self.decoder:
            embeddings, maps = block(embeddings, x + positions, x, self.queries)
        return embeddings, maps.detach().unflatten(2, grid)


class Attention(nn.Module):
    """Multi-head attention that also returns its weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} cannot be split among {heads} heads")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Attends.

        Args:
            queries: `[B, Q, w]`.
            keys: `[B, T, w]`.
            values: `[B, T, w]`.

        Returns:
            The result `[B, Q, w]` and the attention, averaged over heads, `[B, Q, T]`.
        """
        q, k, v = (
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for layer, x in ((self.query, queries), (self.key, keys), (self.value, values))
        )
        weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).softmax(3)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), weights.mean(1)


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self, width: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.mixer = nn.Sequential(
            nn.Linear(width, feedforward),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(feedforward, width),
        )
        self.after_attention, self.after_mixer = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
        """`x + shift` `[B, Q, w]` attends to `keys`; returns the new `x` and the weights."""
        attended, weights = self.attention(x + shift, keys, values)
        x = self.after_attention(x + self.dropout(attended))
        return self.after_mixer(x + self.dropout(self.mixer(x))), weights


def as_tokens(features: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """Tokens `[B, T, D]` of a map, tokens or a vector, and the grid (h, w) they form."""
    if features.ndim == 4:
        return features.flatten(2).transpose(1, 2), (features.shape[2], features.shape[3])
    tokens = features if features.ndim == 3 else features[:, None]
    return tokens, (1, tokens.shape[1])


def sine_positions(height: int, width: int, size: int, like: Tensor) -> Tensor:
    """Position encodings `[h * w, size]`: sines and cosines of the row, then of the column."""
    half = (size + 1) // 2
    rate = torch.exp(torch.arange((half + 1) // 2).to(like) * (-2 * math.log(10_000.0) / half))

    def waves(n: int) -> Tensor:
        angle = (torch.arange(n).to(like) + 1)[:, None] / n * (2 * math.pi) * rate
        return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1)[:, :half]

    rows = waves(height)[:, None].expand(height, width, half)
    columns = waves(width)[None].expand(height, width, half)
    return torch.cat((rows, columns), dim=2).flatten(0, 1)[:, :size]
