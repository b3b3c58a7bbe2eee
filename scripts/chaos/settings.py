# SPDX-License-Identifier: Apache-2.0
"""Valid values for every setting of docs/settings.md, other than its default.

tests/settings_test.py runs each of them without a disturbance and fails if a setting of the page is
missing here. run_chaos.py draws from the settings that affect a running job.
"""

from __future__ import annotations

import dataclasses

# The variables of every job of several ranks. Placeholders in values: {rank}, {size}, {parity} (of
# the rank), {port} (of the rendezvous server), {secret} and {folder} (temporary).
PLACE = {
    "HOROVOD_RANK": "{rank}",
    "HOROVOD_SIZE": "{size}",
    "HOROVOD_RENDEZVOUS": "127.0.0.1:{port}",
    "HOROVOD_NETWORK_INTERFACES": "lo",
}

ON = ("1",)
# Autotune changes a setting after every fifth step.
QUICK_TUNING = {
    "HOROVOD_AUTOTUNE": "1",
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    values: tuple[str, ...]
    # Settings that this one needs to have an effect; an empty value removes one of PLACE.
    beside: dict[str, str] = dataclasses.field(default_factory=dict)
    # Affects a running job and can be combined with any other such setting.
    running: bool = True

    def environment(self, value: str) -> dict[str, str]:
        return {**self.beside, self.name: value}


def fixed(name: str, *values: str, **beside: str) -> Setting:
    """A setting about the rank's place in the job, or one that a running job does not read."""
    return Setting(name, values, beside, running=False)


ALL = [
    # Engine
    Setting("HOROVOD_FUSION_THRESHOLD", ("4096", "0")),
    Setting("HOROVOD_CYCLE_TIME", ("5", "0.5")),
    Setting("HOROVOD_CACHE_CAPACITY", ("4", "0")),
    Setting("HOROVOD_HIERARCHICAL_ALLREDUCE", ON),
    Setting("HOROVOD_HIERARCHICAL_ALLGATHER", ON),
    fixed("HOROVOD_TORUS_ALLREDUCE", "1"),
    Setting(
        "HOROVOD_ALLREDUCE_ALGORITHM",
        ("ring", "recursive_doubling", "halving_doubling", "two_level", "shared_memory"),
    ),
    Setting("HOROVOD_DETERMINISTIC", ON),
    Setting("HOROVOD_DISABLE_GROUP_FUSION", ON),
    Setting("HOROVOD_DYNAMIC_PROCESS_SETS", ON),
    fixed("HOROVOD_CPU_OPERATIONS", "gloo"),
    fixed("HOROVOD_CONTROLLER", "gloo"),
    Setting("HOROVOD_THREAD_AFFINITY", ("0,0,0,0",)),
    fixed("HOROVOD_ELASTIC", "1"),
    fixed("HOROVOD_ADASUM_MPI_CHUNK_SIZE", "4096"),
    fixed("HOROVOD_MPI_THREADS_DISABLE", "1"),
    fixed("HOROVOD_ENABLE_XLA_OPS", "1"),
    fixed("HOROVOD_ENABLE_ASYNC_COMPLETION", "1"),
    fixed("HOROVOD_NUM_NCCL_STREAMS", "2"),
    fixed("HOROVOD_BATCH_D2D_MEMCOPIES", "0"),
    fixed("HOROVOD_DISABLE_NVTX_RANGES", "1"),
    fixed("HOROVOD_CCL_CACHE", "1"),
    # Autotune
    Setting("HOROVOD_AUTOTUNE", ON, QUICK_TUNING),
    Setting("HOROVOD_AUTOTUNE_LOG", ("{folder}/autotune.{rank}.csv",), QUICK_TUNING),
    Setting("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", ("1",), QUICK_TUNING),
    Setting("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", ("2",), QUICK_TUNING),
    Setting("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", ("3",), QUICK_TUNING),
    Setting("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", ("0.2",), QUICK_TUNING),
    # Timeline, stall check, log
    Setting("HOROVOD_TIMELINE", ("{folder}/timeline.json", "DYNAMIC")),
    Setting("HOROVOD_TIMELINE_MARK_CYCLES", ON, {"HOROVOD_TIMELINE": "{folder}/timeline.json"}),
    Setting("HOROVOD_TIMELINE_ALL_RANKS", ON, {"HOROVOD_TIMELINE": "{folder}/timeline.json"}),
    Setting("HOROVOD_STALL_CHECK_DISABLE", ON),
    Setting("HOROVOD_STALL_CHECK_TIME_SECONDS", ("10",)),
    Setting(
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", ("20",), {"HOROVOD_STALL_CHECK_TIME_SECONDS": "10"}
    ),
    Setting("HOROVOD_LOG_LEVEL", ("trace", "error")),
    Setting("HOROVOD_LOG_HIDE_TIME", ON),
    # Place in the job, and connections to the other ranks
    fixed("HOROVOD_RANK", "{rank}"),
    fixed("HOROVOD_SIZE", "{size}"),
    fixed("HOROVOD_LOCAL_RANK", "{rank}", HOROVOD_LOCAL_SIZE="{size}"),
    fixed("HOROVOD_LOCAL_SIZE", "{size}", HOROVOD_LOCAL_RANK="{rank}"),
    fixed("HOROVOD_CROSS_RANK", "0", HOROVOD_CROSS_SIZE="1"),
    fixed("HOROVOD_CROSS_SIZE", "1", HOROVOD_CROSS_RANK="0"),
    Setting("HOROVOD_HOSTNAME", ("host-{parity}", "host-{rank}")),
    fixed("HOROVOD_RENDEZVOUS", "127.0.0.1:{port},127.0.0.2:{port}"),
    fixed(
        "HOROVOD_GLOO_RENDEZVOUS_ADDR",
        "127.0.0.1",
        HOROVOD_RENDEZVOUS="",
        HOROVOD_GLOO_RENDEZVOUS_PORT="{port}",
    ),
    fixed(
        "HOROVOD_GLOO_RENDEZVOUS_PORT",
        "{port}",
        HOROVOD_RENDEZVOUS="",
        HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1",
    ),
    fixed("HOROVOD_GLOO_IFACE", "lo", HOROVOD_NETWORK_INTERFACES=""),
    fixed("HOROVOD_NETWORK_INTERFACES", "lo"),
    Setting("HOROVOD_GLOO_TIMEOUT_SECONDS", ("15",)),
    Setting("HOROVOD_HEARTBEAT_TIMEOUT_SECONDS", ("4",)),
    Setting("HOROVOD_SHM_DISABLE", ON),
    Setting("HOROVOD_TLS", ON),
    Setting("HOROVOD_WIRE_PROTECTION", ("none",)),
    fixed("_HOROVOD_SECRET_KEY", "{secret}"),
    # Launcher
    fixed("HOROVOD_START_TIMEOUT", "20"),
    fixed("HOROVOD_ELASTIC_TIMEOUT", "60"),
    fixed("HOROVOD_SPARK_START_TIMEOUT", "60"),
]

BY_NAME = {setting.name: setting for setting in ALL}


def protects(environment: dict[str, str]) -> bool:
    """Whether a byte changed on the network is detected."""
    return (
        environment.get("HOROVOD_TLS") == "1"
        or environment.get("HOROVOD_WIRE_PROTECTION") != "none"
    )


def fits(environment: dict[str, str], ranks: int, kind: str = "nothing") -> bool:
    """Whether a job of this many ranks can use these settings together."""
    algorithm = environment.get("HOROVOD_ALLREDUCE_ALGORITHM")
    host_name = environment.get("HOROVOD_HOSTNAME")
    if algorithm in ("ring", "shared_memory") and "HOROVOD_DETERMINISTIC" in environment:
        return False
    if algorithm == "shared_memory":
        apart = "HOROVOD_SHM_DISABLE" in environment or host_name is not None
        return not apart and kind not in ("shm", "relay")
    # It needs several ranks per host; the process sets of these jobs have one.
    return algorithm != "two_level"
