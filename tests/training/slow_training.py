"""A run that saves its state after every epoch and is killed at some moment."""

import os
import signal
import threading

from plusone.training import run

MORE = 3  # epochs that it may begin after the one before its end


def train_and_die(task, recipe, folder, epochs, delay):
    """Is killed some time after so many epochs, `MORE` epochs later at the latest."""
    run.SECONDS_BETWEEN_CHECKPOINTS = 0
    seen = []

    def counted(record):
        seen.append(record)
        if len(seen) == epochs:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if len(seen) == epochs + MORE:
            threading.Event().wait()

    run.train(task, recipe, folder, resume=True, on_record=counted)
