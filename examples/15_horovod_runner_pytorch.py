# SPDX-License-Identifier: Apache-2.0
"""From PyTorch on one machine to HorovodRunner: `train`, and the changes for it in `train_hvd`.

    python examples/15_horovod_runner_pytorch.py              two tasks of a Spark on this machine
    spark-submit --master spark://… examples/15_horovod_runner_pytorch.py --np 4 --folder /shared
    python examples/15_horovod_runner_pytorch.py --np -2      two processes here, without Spark

HorovodRunner sends the function to the executors, with everything of this script that the function
uses: other functions, and the images. It does not send modules, so each function contains its
imports.
"""

import argparse
import os
import pathlib
import tempfile
import uuid

import digits
from pyspark.sql import SparkSession
from sparkdl import HorovodRunner

BATCH, EPOCHS = 32, 6
IMAGES, LABELS = digits.load()
IS_TEST = digits.is_test(LABELS)


def make_model():
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten()),
        nn.Linear(512, 10),
    )


def train_one_epoch(model, device, loader, optimizer, epoch):
    from torch.nn.functional import cross_entropy

    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)


def save_checkpoint(folder, model, epoch):
    import torch

    torch.save(model.state_dict(), f"{folder}/checkpoint-{epoch}.pt")


def accuracy_of(folder):
    """The accuracy of the last checkpoint on images that were not used in training."""
    import torch

    model = make_model()
    model.load_state_dict(torch.load(f"{folder}/checkpoint-{EPOCHS}.pt", map_location="cpu"))
    model.eval()
    with torch.no_grad():
        return float((model(IMAGES[IS_TEST]).argmax(1) == LABELS[IS_TEST]).float().mean())


def train(learning_rate, folder):
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training = torch.utils.data.TensorDataset(IMAGES[~IS_TEST], LABELS[~IS_TEST])
    loader = torch.utils.data.DataLoader(training, batch_size=BATCH, shuffle=True)
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    for epoch in range(1, EPOCHS + 1):
        train_one_epoch(model, device, loader, optimizer, epoch)
        save_checkpoint(folder, model, epoch)


def train_hvd(learning_rate, folder):
    import horovod.torch as hvd
    import torch
    from sparkdl.horovod import log_to_driver

    hvd.init()
    # One GPU per process.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(hvd.local_rank())
    else:
        torch.set_num_threads(1)  # processes share the cores

    # Each process reads its own part of the images.
    training = torch.utils.data.TensorDataset(IMAGES[~IS_TEST], LABELS[~IS_TEST])
    sampler = torch.utils.data.distributed.DistributedSampler(
        training, num_replicas=hvd.size(), rank=hvd.rank()
    )
    loader = torch.utils.data.DataLoader(training, batch_size=BATCH, sampler=sampler)

    model = make_model().to(device)
    # A step uses hvd.size() batches, so the learning rate is larger by that factor.
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    # All processes begin with the weights of rank 0.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)
        train_one_epoch(model, device, loader, optimizer, epoch)
        if hvd.rank() == 0:  # several processes would overwrite each other's files
            save_checkpoint(folder, model, epoch)
            log_to_driver(f"rank 0 of {hvd.size()} has saved epoch {epoch}")
    return hvd.size()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="shared with the executors")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder) / f"digits-{uuid.uuid4()}"
    (folder / "alone").mkdir(parents=True)
    (folder / "horovod").mkdir()

    train(options.learning_rate, folder / "alone")
    print(f"one process recognises {100 * accuracy_of(folder / 'alone'):.1f} %")

    if options.np > 0:
        SparkSession.builder.appName("HorovodRunner").getOrCreate()
    # A timeline of all processes, for chrome://tracing.
    os.environ["HOROVOD_TIMELINE"] = str(folder / "horovod_timeline.json")
    hr = HorovodRunner(np=options.np)
    size = hr.run(train_hvd, learning_rate=options.learning_rate, folder=folder / "horovod")
    print(f"{size} processes recognise {100 * accuracy_of(folder / 'horovod'):.1f} %")
    print(f"timeline: {os.environ['HOROVOD_TIMELINE']}")


if __name__ == "__main__":
    main()
