# SPDX-License-Identifier: Apache-2.0
"""Trains with PyTorch in the tasks of a Spark application, and returns the results by rank.

    python examples/14_spark_run.py                           on this machine, two tasks
    spark-submit --master spark://… examples/14_spark_run.py --num-proc 4

The executors need the same Python and packages as this script; PYSPARK_PYTHON selects their Python.
"""

import argparse
import pathlib
import sys

import digits
import horovod.spark
from pyspark.sql import SparkSession

HERE = pathlib.Path(__file__).parent


def train(images, labels, epochs):
    import digits
    import horovod.torch as hvd
    import torch
    from horovod.spark.task import get_available_devices

    hvd.init()
    torch.set_num_threads(1)  # tasks share the cores
    # If Spark schedules GPUs: those that it has assigned to the task of this rank.
    devices = get_available_devices()
    device = torch.device(f"cuda:{devices[0]}" if devices else "cpu")

    is_test = digits.is_test(labels)
    mine = (~is_test).nonzero().flatten()[hvd.rank() :: hvd.size()]
    share = torch.utils.data.TensorDataset(images[mine].to(device), labels[mine].to(device))
    model = digits.Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(epochs):
        for inputs, wanted in torch.utils.data.DataLoader(share, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), wanted)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        right = model(images[is_test].to(device)).argmax(1).cpu() == labels[is_test]
    return hvd.rank(), float(right.float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-proc", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()

    # The session of this application, or a new one that uses all cores of this machine.
    spark = SparkSession.builder.appName("digits").getOrCreate()
    # Spark sends `train` to the executors, but not modules in the folder of this script.
    spark.sparkContext.addPyFile(str(HERE / "digits.py"))
    results = horovod.spark.run(
        train,
        args=(*digits.load(), options.epochs),
        num_proc=options.num_proc,
        stdout=sys.stdout,
        stderr=sys.stderr,
    )
    for rank, accuracy in results:
        print(f"rank {rank} recognises {100 * accuracy:.1f} % of digits not seen before")


if __name__ == "__main__":
    main()
