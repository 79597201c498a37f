"""The memory of a sweep over the cores, and its threads."""

from collections.abc import Callable

import numpy as np

from . import newton_state as state
from . import schedule
from .layout import aligned
from .newton_sweep import newton_sweep
from .panels import LANES
from .runs import BLOCK, Runs, with_outputs
from .sharing import ENDED, make_counters
from .tall_qr import tall_qr_scratch

SAMPLES_PER_CHUNK, MOST_CHUNKS = 1024, 32

# Evaluates a loss at predictions f: its weighted sum, first and second derivatives.
Evaluation = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def count_chunks(m: int) -> int:
    """Return in how many chunks m samples are cut: so many threads can share a sweep."""
    return max(1, min(MOST_CHUNKS, m // SAMPLES_PER_CHUNK))


class CoreSweep:
    """Sweeps over the cores of a train, each one call of a kernel.

    Parameters
    ----------
    runs : Runs
        The samples of the d modes.
    cores : list of arrays (n, r0, r1), of float64
        No rank exceeds n times a neighbouring one, see `trim_ranks`. With K > 1 outputs there is
        one more core, (1, r, K).
    y, weights : arrays (m,) or (m, K); and (m,)
    loss : int
        See `loss_formulas`; OTHER for one that `sweep` is given.
    alpha : float
    steps : tuple
        Newton steps, steps of conjugate gradients, and their tolerance.
    offset : array like y, optional
        Added to all predictions.
    """

    def __init__(
        self, runs: Runs, cores: list, y, weights, loss: int, alpha: float, steps, offset=None
    ):
        m, self.shape = len(y), y.shape
        K = 1 if y.ndim == 1 else y.shape[1]
        if len(cores) > len(runs.kinds):
            runs = with_outputs(runs, m)
        self.n_chunks = count_chunks(m)
        sizes = np.array([len(core) for core in cores])
        ranks = np.array([core.shape[1] for core in cores] + [cores[-1].shape[2]])
        counts = np.array([core.size for core in cores])
        data = np.concatenate([core.reshape(-1) for core in cores])
        self._cores = data, ranks, sizes, np.append(0, np.cumsum(counts))
        self._runs = tuple(runs)
        self._rows = self._make_rows(m, K, ranks, y, weights, offset, runs.weights.dtype)
        self._sharing = make_counters()
        self._work = self._make_work(K, runs, ranks, sizes)
        self._counters = np.zeros(state.N_COUNTERS, np.int64)
        self._numbers = np.zeros(state.N_NUMBERS)
        self._counters[state.LAST_PASS] = state.READY
        self._counters[state.CENTER] = len(cores)
        self._settings = loss, float(alpha), *steps, self._counters, self._numbers
        matrices = runs.n_terms * _padded(ranks[:-1]) * _padded(ranks[1:])
        self._flops = 4 * m * float(matrices.mean())  # of a pass

    def _make_rows(self, m, K, ranks, y, weights, offset, dtype):
        rows, targets = np.zeros((7, K, m + 1)), np.zeros((K, m + 1))
        targets[:, :m] = y.reshape(m, K).T
        if offset is not None:
            rows[0, :, :m] = np.broadcast_to(offset, self.shape).reshape(m, K).T
        widths = _padded(ranks)
        lengths = widths * (m + 1) * K
        if K > 1:
            lengths[0], lengths[-1] = LANES * (m + 1), 0
        first = np.cumsum(lengths) - lengths
        bonds = aligned(int(lengths.sum()), dtype)
        for k, (start, length) in enumerate(zip(first, lengths, strict=True)):
            bond = bonds[start : start + length].reshape(-1, m + 1, widths[k])
            bond[:, m] = 0  # sample m fills up the runs
            if k in (0, len(ranks) - 1):  # (1, 0, .., 0), as ranks are padded
                bond[:, :m] = 0
                bond[:, :m, 0] = 1
        w = np.append(weights, 0.0)
        return targets.reshape(-1), w, rows.reshape(-1), bonds, first, m, K, self.n_chunks

    def _make_work(self, K, runs, ranks, sizes):
        dtype, padded = runs.weights.dtype, _padded(ranks)
        R0, R1, r0, r1 = padded[:-1], padded[1:], ranks[:-1], ranks[1:]
        slots, width, n_chunks = R0 * R1, max(int(padded.max()), K), self.n_chunks
        n_places, terms = np.diff(runs.first_place), runs.n_terms
        most_runs, n_ordered = int(runs.n_runs.max()), int(n_places.max()) * K
        room = BLOCK * (2 * width + K + 2 + int((terms * R1).max()))
        n_vectors = int((5 * sizes * slots + sizes).max()) + most_runs
        n_qr = max(
            max(
                r1[k] ** 2 + n * r0[k] * r1[k] + tall_qr_scratch(int(n * r0[k]), int(r1[k])),
                r1[k] ** 2 + n * r0[k] * r1[k] + r1[k] * width,
                r0[k] ** 2 + n * r0[k] * r1[k] + tall_qr_scratch(int(n * r1[k]), int(r0[k])),
            )
            for k, n in enumerate(sizes)
        )
        return (
            aligned(int((n_places * terms * R0).max()), dtype),
            aligned(int((n_places * R1).max()) * K, dtype),
            aligned(4 * n_ordered, dtype),
            n_ordered,
            aligned(int((runs.n_matrices * slots).max()), dtype),
            aligned(int(((runs.n_matrices + n_chunks * terms) * slots).max()), dtype),
            aligned(int((_padded(sizes) * slots).max()), dtype),
            aligned(n_chunks * room, dtype),
            width,
            room,
            np.empty(n_vectors),
            np.empty(2 * most_runs + n_chunks),
            np.empty(n_chunks),
            np.empty(int(n_qr)),
            self._sharing,
        )

    def _call(self, is_helper):
        return newton_sweep(
            self._runs, self._cores, self._rows, self._work, self._settings, is_helper
        )

    def sweep(self, evaluation: Evaluation | None = None) -> None:
        """Solve for each core in turn, to the right and back; the first call only evaluates."""
        n_threads = schedule.useful_threads(self.n_chunks, self._flops)
        while True:
            self._sharing[ENDED] = 0
            following = schedule.run_with_helpers(self._go_on, self._help, self._stop, n_threads)
            if following == state.READY:
                return
            self._evaluate(evaluation)

    def _go_on(self):
        return self._call(is_helper=False)

    def _help(self):
        self._call(is_helper=True)

    def _stop(self):
        self._sharing[ENDED] = 1

    def _evaluate(self, evaluation):
        rows, m = self._state, self.shape[0]
        current, t = self._counters[state.CURRENT], self._numbers[state.STEP_SIZE]
        f = rows[3 * current, :, :m] + t * rows[6, :, :m]
        value, *derivatives = evaluation(f.T.reshape(self.shape))
        trial = 3 * (1 - current)
        rows[trial, :, :m] = f
        for row, derivative in zip(rows[trial + 1 : trial + 3], derivatives, strict=True):
            row[:, :m] = derivative.reshape(m, -1).T
        values = self._work[-3]
        values[:] = 0
        values[0] = value

    @property
    def _state(self):
        m, K = self._rows[-3:-1]
        return self._rows[2].reshape(7, K, m + 1)

    @property
    def f(self) -> np.ndarray:
        """The predictions now."""
        m = self.shape[0]
        return self._state[3 * self._counters[state.CURRENT], :, :m].T.reshape(self.shape)

    @property
    def value(self) -> float:
        """The objective now."""
        return float(self._numbers[state.VALUE])

    @property
    def mean_squared_gradient(self) -> float:
        """Of the cores in the last sweep, each as it was before its first Newton step."""
        n_solved = self._counters[state.N_SOLVED]
        return float(self._numbers[state.SQUARED_GRADIENTS] / max(n_solved, 1))

    @property
    def cores(self) -> list[np.ndarray]:
        """The cores now, (n, r0, r1): copies."""
        data, ranks, sizes, offsets = self._cores
        return [
            data[offsets[k] : offsets[k + 1]].reshape(n, ranks[k], ranks[k + 1]).copy()
            for k, n in enumerate(sizes)
        ]


def trim_ranks(cores: list[np.ndarray]) -> list[np.ndarray]:
    """Return cores (n, r0, r1) of the same tensor with r1 <= n r0 and r0 <= n r1 for all of them.

    A core of more columns than rows, as a matrix, is multiplied into its neighbour.
    """
    cores = list(cores)
    for k in range(len(cores) - 1):
        n, r0, r1 = cores[k].shape
        if r1 > n * r0:
            A = cores[k].reshape(n * r0, r1)
            cores[k] = np.eye(n * r0).reshape(n, r0, n * r0)
            cores[k + 1] = A @ cores[k + 1]
    for k in range(len(cores) - 1, 0, -1):
        n, r0, r1 = cores[k].shape
        if r0 > n * r1:
            A = cores[k].transpose(1, 0, 2).reshape(r0, n * r1)
            cores[k] = np.eye(n * r1).reshape(n * r1, n, r1).transpose(1, 0, 2)
            cores[k - 1] = cores[k - 1] @ A
    return [np.ascontiguousarray(core) for core in cores]


def _padded(n: np.ndarray) -> np.ndarray:
    return -(-n // LANES) * LANES
