"""A training that saves its state after every epoch and takes its time, to be killed."""

import time

from plusone.training import run


def train_slowly(task, recipe, folder):
    run.SECONDS_BETWEEN_CHECKPOINTS = 0
    run.train(task, recipe, folder, resume=True, on_record=lambda record: time.sleep(0.003))
