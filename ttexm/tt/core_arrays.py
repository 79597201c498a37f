"""The cores of a train as arrays of their own, and back."""

import numpy as np

from ..kernels import host
from ..kernels.layout import Train


def from_slots(slots: list[np.ndarray]) -> Train:
    """The train of cores that are given slot-major, (n, r0, r1)."""
    data = np.concatenate([part.ravel() for part in slots])
    ranks = np.array([1] + [part.shape[2] for part in slots], np.int64)
    return host.make_train(data, ranks, np.array([len(part) for part in slots], np.int64))


def to_slots(train: Train) -> list[np.ndarray]:
    """Views of the cores, slot-major, (n, r0, r1)."""
    ends, ranks, sizes = train.offsets.tolist(), train.ranks.tolist(), train.sizes.tolist()
    return [
        train.data[ends[k] : ends[k + 1]].reshape(n, ranks[k], ranks[k + 1])
        for k, n in enumerate(sizes)
    ]


def read_only_cores(train: Train) -> tuple[np.ndarray, ...]:
    """Read-only views of the cores, (r0, n, r1)."""
    views = tuple(slots.transpose(1, 0, 2) for slots in to_slots(train))
    for view in views:
        view.flags.writeable = False
    return views
