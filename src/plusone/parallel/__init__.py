"""Several processes: everything that knows torch.distributed."""
