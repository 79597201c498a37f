"""Model: the result of a fit, without the data. It predicts, and its weights can be read."""

import difflib
import numbers
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .data.batch import RankOneBatch
from .data.moments import Moments
from .data.table import Table
from .features.columns import FittedColumns
from .kernels import backend
from .learn.losses import Loss
from .tt.compiled import CompiledTensor
from .tt.core_arrays import from_slots, to_slots
from .tt.scaled_train import ScaledTrain
from .tt.tensor import TTTensor

ROWS_AT_ONCE = 12_288  # on the CPU: their features stay in cache; a multiple of a block of samples
DEVICE_ROWS_AT_ONCE = 2**20
MOST_NAMED = 5  # names that an error suggests


class Training(NamedTuple):
    """What a model keeps of the rows that it was trained on.

    Parameters
    ----------
    moments : Moments
        Means and covariances of the feature vectors of each column.
    deviation : float or array (n_outputs,)
        The standard deviation of the raw predictions.
    """

    moments: Moments
    deviation: np.ndarray | float


class Model:
    """Fitted columns, weights, a loss, and the units of the target. Immutable.

    Parameters
    ----------
    columns : FittedColumns
    weights : TTTensor
        One mode for each column; with several outputs one more, the last, for them.
    loss : Loss
        What turns raw predictions into predictions.
    center, spread : float, or arrays (n_outputs,)
        Predictions are ``center + spread loss.predict(f)`` with the raw predictions
        ``f = <weights, X>``. Only losses that allow rescaling have others than 0 and 1.
    training : Training, optional
        Wanted for explanations.
    """

    def __init__(
        self,
        columns: FittedColumns,
        weights: TTTensor,
        loss: Loss,
        center: np.ndarray | float = 0.0,
        spread: np.ndarray | float = 1.0,
        training: Training | None = None,
    ):
        self.columns, self.weights, self.loss = columns, weights, loss
        self.center, self.spread, self.training = center, spread, training

    def __reduce__(self):
        fields = self.columns, self.weights, self.loss, self.center, self.spread, self.training
        return Model, fields

    @property
    def has_outputs(self) -> bool:
        """Whether the weights have one more mode, for several classes or targets."""
        return self.weights.ndim > len(self.columns)

    def with_training(self, training: Training | None) -> "Model":
        """Return the model with what is known of its training rows."""
        return Model(self.columns, self.weights, self.loss, self.center, self.spread, training)

    def trained_on(
        self, batch: RankOneBatch, weights: np.ndarray, before: Training | None = None
    ) -> "Model":
        """Return the model with what explanations need to know of its training rows.

        O(d) per row, and a prediction.

        Parameters
        ----------
        batch : RankOneBatch
            Of `columns`.
        weights : array (m,)
        before : Training, optional
            Of earlier rows. Their moments count as well; the deviation is that of these rows alone,
            as the earlier ones had other predictions.
        """
        if not weights.any():
            return self.with_training(before)
        f = self.raw_weights.contract(batch)
        size = np.abs(f).max() or 1.0  # squares of predictions may leave the range of floats
        f = f / size
        mean = np.average(f, axis=0, weights=weights)
        deviation = size * np.sqrt(np.average((f - mean) ** 2, axis=0, weights=weights))
        moments = Moments.of_batch(batch, weights)
        if before is not None:
            moments = before.moments.merge(moments)
        return self.with_training(Training(moments, deviation))

    @cached_property
    def raw_weights(self) -> TTTensor:
        """The weights in the units of the target; without its center.

        Where only differences between outputs count, those sum to 0: what all outputs have in
        common would count in variances, but changes no prediction.
        """
        if not self.has_outputs:
            return self.weights * float(self.spread)
        scaled = self.weights.scaled_train
        *slots, last = to_slots(scaled.train)
        last = last * np.reshape(self.spread, (-1, 1, 1))
        if self.loss.compares_outputs:
            last = last - last.mean(axis=0)
        return TTTensor.from_train(ScaledTrain(from_slots([*slots, last]), scaled.exponent))

    @cached_property
    def _compiled(self) -> CompiledTensor:
        return self.weights.compile()

    def raw_weights_of(self, output: int | None) -> TTTensor:
        """Return `raw_weights` of one output, or all of them for None."""
        if output is None:
            return self.raw_weights
        return self.raw_weights[(slice(None),) * len(self.columns) + (output,)]

    # -- predictions ---------------------------------------------------------------------------

    def raw(self, table: Table, device: str | None = None) -> np.ndarray:
        """Return the raw predictions ``<weights, X>``, (m,) or (m, n_outputs).

        Rows are taken in parts, so that memory does not grow with the table, but for the result.
        O(d n r^2) per row, O(d r^2) for categories; several outputs cost r per output more.

        Parameters
        ----------
        table : Table
            Of the columns that were fitted.
        device : {"cpu", "cuda", "auto"}, optional
            Where to compute.
        """
        self.columns.check(table)
        m = len(table)
        if m <= ROWS_AT_ONCE:
            return self._contract(table, device)
        is_host = backend.resolve(device) == "cpu"
        step, parts = ROWS_AT_ONCE if is_host else DEVICE_ROWS_AT_ONCE, []
        for start in range(0, m, step):
            try:
                parts.append(self._contract(table[start : start + step], device))
            except ValueError:
                # Encode all rows so far, for an error that counts rows from the first one.
                self.columns.encode(table[: start + step])
                raise
        return np.concatenate(parts)

    def _contract(self, table, device):
        return self._compiled.contract(self.columns.encode(table).to(device))

    def predict(self, f: np.ndarray) -> np.ndarray:
        """Return the predictions that raw predictions stand for, in the units of the target."""
        return self.loss.predict(f) * self.spread + self.center

    def place(self, column: str | int) -> int:
        """Return the position of a column, given by its name or position."""
        d, names = len(self.columns), [fitted.name for fitted in self.columns]
        if isinstance(column, numbers.Integral) and not isinstance(column, bool):
            if not -d <= column < d:
                raise ValueError(f"There is no column {column}; there are {d}, from 0 to {d - 1}.")
            return int(column) % d
        if not isinstance(column, str):
            raise TypeError(f"A column is a name or a position, got {column!r}.")
        if names.count(column) == 1:
            return names.index(column)
        if column in names:
            raise ValueError(f"{column!r} is the name of several columns; give its position.")
        near = difflib.get_close_matches(column, names, MOST_NAMED, 0.5)
        raise ValueError(f"There is no column {column!r}{_hint(near)}")

    # -- weights -------------------------------------------------------------------------------

    def coefficients(self) -> TTTensor:
        """Return the weights of all products, in the units of the user.

        Entry ``[i_1, .., i_d]`` belongs to the product of the functions that the slots are named
        after (``columns[k].slot_names[i_k]``). With these functions of the raw columns, clipped
        where their map clips them, the sum of all products is the raw prediction f; for the squared
        loss, it is the prediction itself.
        With several outputs the last mode stands for them. O(d n r^2).
        """
        cores = [
            fitted.to_user_units(core)
            for fitted, core in zip(self.columns, self.weights.cores, strict=False)
        ]
        if self.has_outputs:
            cores.append(self.weights.cores[-1] * np.reshape(self.spread, (1, -1, 1)))
        else:
            cores[-1] = cores[-1] * self.spread
        W = TTTensor(cores)
        if not np.any(self.center):
            return W
        if not all(fitted.has_constant for fitted in self.columns):
            raise ValueError(
                "The target was centred, and a column without a constant cannot hold its mean; use "
                "constant=True."
            )
        ones = [np.eye(1, n)[0] for n in self.columns.shape]
        outputs = [] if np.ndim(self.center) == 0 else [np.asarray(self.center, float)]
        mean = TTTensor.rank_one([*ones, *outputs])
        return W + (mean if outputs else float(self.center) * mean)

    def coefficient(self, *names: str) -> float | np.ndarray:
        """Return the weight of a product, in the units of the user.

        Parameters
        ----------
        *names : str
            Slots of different columns: ``"dose"``, ``"drug=B"``, ``"curve2(dose)"``, ``"age^2"``.
            Without any, the constant is returned.

        Returns
        -------
        float, or array (n_outputs,)

        Notes
        -----
        By default, ``"dose"`` is the column between its first and its last knot (it is clipped
        there), and its weight is the slope of a straight line. Curves are added to that line:
        they have mean 0 and variance 1 in training, and are uncorrelated with the column.
        """
        found = self.coefficients()[self._index(names)]
        return float(found) if np.ndim(found) == 0 else found.full()

    def _index(self, names) -> tuple:
        """Return the index of a product in `coefficients`."""
        chosen: dict[int, int] = {}
        for name in names:
            k, i = self._find(name)
            if k in chosen:
                column = self.columns[k]
                raise ValueError(
                    f"{column.slot_names[chosen[k]]!r} and {name!r} are both functions of column "
                    f"{column.name!r}; a product has at most one of each column."
                )
            chosen[k] = i
        for k, column in enumerate(self.columns):
            if k not in chosen and not column.has_constant:
                raise ValueError(
                    f"Column {column.name!r} has no constant, so that it is in every product: name "
                    f"one of its functions, {', '.join(map(repr, column.slot_names))}."
                )
        index = tuple(chosen.get(k, 0) for k in range(len(self.columns)))
        return (*index, slice(None)) if self.has_outputs else index

    def _find(self, name) -> tuple[int, int]:
        """Return the column and the slot of a name."""
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, such as 'x0' or 'drug=B', got {name!r}.")
        found = self.columns.find(name)
        if len(found) == 1:
            return found[0]
        if found:
            owners = [repr(self.columns[k].name) for k, _ in found]
            raise ValueError(
                f"{name!r} is a function of several columns, {' and '.join(owners)}; rename one of "
                "them."
            )
        near = difflib.get_close_matches(name, self.columns.all_names(), MOST_NAMED, 0.5)
        for column in self.columns:
            if column.name == name:
                near = column.slot_names[column.has_constant :][:MOST_NAMED]
        raise ValueError(f"There is no function {name!r}{_hint(near)}")


def _hint(near):
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
