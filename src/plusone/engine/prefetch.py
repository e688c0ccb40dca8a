"""Batches made one ahead, in a thread, while the model works on the last one."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Generic, TypeVar

import torch

Item = TypeVar("Item")
DEPTH = 2


def ahead(items: Iterator[Item], depth: int = DEPTH) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made before they are asked for.

    An error comes up where the item would have. The thread ends with the last item, or when this
    generator is closed or forgotten. What makes the items must not draw from torch's global
    generator, which the training step uses at the same time.

    Args:
        items: What makes them; used by the thread alone from now on.
        depth: How many are kept waiting at most.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    line, threads = _Line(items, depth), torch.get_num_threads()
    thread = Thread(target=line.work, name="plusone-ahead", daemon=True)
    thread.start()
    try:
        while (found := line.take()) is not None:
            yield found[0]
    finally:
        line.close()
        thread.join()
        torch.set_num_threads(threads)  # `work` also changed what new threads begin with


class _Line(Generic[Item]):
    """A queue that is filled only as far as there are permits."""

    def __init__(self, items: Iterator[Item], depth: int) -> None:
        self.items, self.closed = items, False
        self.permits = Semaphore(depth)
        self.made: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()

    def work(self) -> None:
        """Makes items until there are none or the line is closed."""
        torch.set_num_threads(1)  # of this thread; the model has the others
        try:
            while self._may_go_on():
                try:
                    self.made.put((next(self.items),))
                except StopIteration:
                    break
            self.made.put(None)
        except BaseException as error:  # it is raised where the item was wanted
            self.made.put(error)

    def take(self) -> tuple[Item] | None:
        """The next item; None after the last."""
        found = self.made.get()
        if isinstance(found, BaseException):
            raise found
        self.permits.release()
        return found

    def close(self) -> None:
        """Lets the thread end, whatever it waits for."""
        self.closed = True
        self.permits.release()

    def _may_go_on(self) -> bool:
        self.permits.acquire()
        return not self.closed
