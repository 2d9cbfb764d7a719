"""Workloads that do what a user's code may do wrong. Read by the trainer, never imported by a test."""

import multiprocessing
import os
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Workload:
    reference_batch = 8
    reference_lr = 0.01

    def __init__(self, what="nothing", from_batch=1):
        self.what = what
        self.from_batch = from_batch  # misbehaves from this batch size on
        self.kept = []

    def model(self):
        if self.what == "model raises":
            raise RuntimeError("no layers left")
        return nn.Linear(4, 2)

    def optimizer(self, params, lr):
        return torch.optim.SGD(params, lr=lr)

    def train_data(self):
        if self.what == "synthetic":
            return None
        if self.what == "few":
            return torch.utils.data.TensorDataset(torch.zeros(10, 4), torch.zeros(10, dtype=torch.long))
        return torch.utils.data.TensorDataset(torch.zeros(64, 4), torch.zeros(64, dtype=torch.long))

    def test_data(self):
        return None

    def example_input(self, batch_size):
        return torch.zeros(batch_size, 4), torch.zeros(batch_size, dtype=torch.long)

    def loss(self, model, batch):
        inputs, labels = batch
        total = functional.cross_entropy(model(inputs), labels, reduction="sum")
        if len(labels) >= self.from_batch:
            total = self.misbehave(total)
        return total, len(labels)

    def misbehave(self, total):
        if self.what == "raises":
            raise KeyError("pixels")
        if self.what == "torch refuses":
            functional.cross_entropy(torch.zeros(3, 2), torch.zeros(4, dtype=torch.long))
        if self.what == "talks":
            raise RuntimeError("x" * 2000000)
        if self.what == "nan":
            return total * float("nan")
        if self.what == "hangs":
            time.sleep(1000)
        if self.what == "leaves":
            os._exit(7)
        if self.what == "says goodbye":
            sys.exit("goodbye")
        if self.what == "prints":
            print("epoch 1\nloss 2.3")
            sys.stdout.write('{"id": 1, "reply": {}}\n')
            os.write(1, b"raw\n")
        if self.what == "reads":
            assert sys.stdin.read() == ""
        if self.what == "forks":
            if os.fork() == 0:
                time.sleep(1000)
        if self.what == "memory error":
            raise MemoryError
        if self.what == "too large":
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            torch.zeros(1 << 40)
        if self.what == "leaks":
            self.kept.append(torch.ones(1 << 18))
        if self.what == "threads":
            torch.set_num_threads(1)
        return total


def make(what="nothing", from_batch=1):
    return Workload(what, from_batch)


def factory_raises():
    raise ValueError("first line\nsecond line")


def factory_forks():
    os.fork()
    return Workload()


def draws():
    import random

    import numpy

    workload = Workload()
    workload.offset = numpy.random.randn() + random.random() + len(str(next(iter({"a", "b", "c"})) == "a"))
    workload.reference_lr = abs(workload.offset) / 1000 + 0.001
    return workload


def one_sample():
    workload = Workload()
    workload.train_data = lambda: torch.utils.data.TensorDataset(torch.zeros(1, 4), torch.zeros(1, dtype=torch.long))
    return workload


def judges_badly():
    workload = Workload()
    workload.test_data = workload.train_data
    workload.evaluate = lambda model, batch: "good"
    return workload


def factory_hangs():
    time.sleep(1000)


def factory_daemons():
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,)).start()
    return Workload()
