"""Training and prediction in several processes: everything that knows torch.distributed."""

__all__ = ["ddp", "processes"]
