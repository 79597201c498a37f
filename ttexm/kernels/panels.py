"""Products of many rows by one matrix, in panels: groups of LANES rows, column after column.

Partial products of samples are rows of numbers here, padded with zeros to a multiple of LANES, so
that no loop has a rest. A *panel* holds LANES rows, transposed: element (i, l) of group g is at
``(g depth + l) LANES + i``. Its address differs from that of the next row by a constant, which lets
a tile of LANES rows and one vector of columns run at the speed of the loads.

All functions take pointers and work on `groups` groups of rows. LLVM makes slow loops of so few
iterations, hence the vector instructions.
"""

import numba
from llvmlite import ir
from numba.extending import intrinsic

from .compilation import VECTOR_BYTES, inner
from .tiles import INTP, Emitter

LANES = 8  # rows of a group; numbers of columns are multiples of it, too
UNROLLED = 4  # steps of a tile in one iteration


@inner
def pad(n):
    """n, rounded up to a multiple of LANES."""
    return (n + LANES - 1) // LANES * LANES


class _Rows(Emitter):
    """Emits loops over groups of rows, and over vectors of their columns."""

    def constant(self, k):
        return ir.Constant(ir.IntType(64), k)

    def times(self, index, k):
        return self.builder.mul(index, self.constant(k))

    def add(self, *indices):
        total = indices[0]
        for index in indices[1:]:
            total = self.builder.add(total, index)
        return total

    def broadcast(self, base, index):
        return self.splat(self.load_scalar(base, index))

    def row_starts(self, group, stride, samples=None):
        """Where the rows of a group begin: side by side, or those of the samples in a list."""
        first, starts = self.times(group, LANES), []
        for i in range(LANES):
            row = self.shift(first, i)
            if samples is not None:
                integer = ir.IntType(32)
                place = self.builder.gep(samples, [row], source_etype=integer)
                row = self.builder.sext(self.builder.load(place, typ=integer), stride.type)
            starts.append(self.builder.mul(row, stride))
        return starts

    def transpose_group(self, rows):
        """LANES vectors of LANES lanes, transposed."""
        rows = list(rows)
        for distance in (1, 2, 4):
            low = [j if not j & distance else j - distance + LANES for j in range(LANES)]
            high = [j + distance if not j & distance else j + LANES for j in range(LANES)]
            for i in range(LANES):
                if not i & distance:
                    x, y = rows[i], rows[i + distance]
                    rows[i], rows[i + distance] = self.shuffle(x, y, low), self.shuffle(x, y, high)
        return rows

    def sums_of_lanes(self, vectors):
        """The sums over the lanes of LANES vectors, as one vector of LANES lanes."""
        while vectors[0].type.count > LANES:
            vectors = [self.halves_added(x) for x in vectors]
        even, odd = list(range(0, 2 * LANES, 2)), list(range(1, 2 * LANES, 2))
        while len(vectors) > 1:
            vectors = [
                self.builder.fadd(self.shuffle(x, y, even), self.shuffle(x, y, odd))
                for x, y in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        return vectors[0]


def _over_columns(context, builder, dtype, n_columns, body):
    """Emit body(emit, j) for vectors of columns from j on, as wide as the machine has them."""
    widest = VECTOR_BYTES * 8 // dtype.bitwidth
    emit = _Rows(context, builder, dtype, widest)
    with emit.repeat(builder.sdiv(n_columns, emit.constant(widest))) as number:
        body(emit, emit.times(number, widest))
    if widest > LANES:
        narrow = _Rows(context, builder, dtype, LANES)
        rest = builder.srem(n_columns, emit.constant(widest))
        with builder.if_then(builder.icmp_signed("!=", rest, emit.constant(0))):
            body(narrow, builder.sub(n_columns, rest))


# -- products --------------------------------------------------------------------------------------


@intrinsic
def panel_product(typing, panels, depth, b, n_columns, groups, out, out_row):
    """out[i] = sum_l panels[l, i] b[l], rows of n_columns numbers; those of out are out_row apart.

    O(depth n_columns) per row. The depth is a multiple of UNROLLED.
    """

    def codegen(context, builder, signature, args):
        panels, depth, b, n_columns, groups, out, out_row = args

        def column(emit, j):
            with emit.repeat(groups) as group:
                first = emit.times(builder.mul(group, depth), LANES)

                def step(level, sums):
                    for k in range(UNROLLED):
                        here = emit.shift(level, k)
                        row = emit.load(b, emit.add(builder.mul(here, n_columns), j))
                        at = emit.add(first, emit.times(here, LANES))
                        sums = [
                            emit.fma(emit.broadcast(panels, emit.shift(at, i)), row, total)
                            for i, total in enumerate(sums)
                        ]
                    return sums

                sums = emit.loop(depth, UNROLLED, LANES, step)
                for start, total in zip(emit.row_starts(group, out_row), sums, strict=True):
                    emit.store(total, out, emit.add(start, j))

        _over_columns(context, builder, signature.args[0].dtype, n_columns, column)
        return context.get_dummy_value()

    return numba.types.void(panels, INTP, panels, INTP, INTP, panels, INTP), codegen


@intrinsic
def panel_outer(typing, panels, depth, rows, rows_row, n_columns, groups, out):
    """out[l] += sum_i panels[l, i] rows[i]; rows are rows_row apart. O(depth n_columns) per row.

    The depth is a multiple of LANES, and there is at least one group.
    """

    def codegen(context, builder, signature, args):
        panels, depth, rows, rows_row, n_columns, groups, out = args

        def column(emit, j):
            with emit.repeat(builder.sdiv(depth, emit.constant(LANES))) as number:
                level = emit.times(number, LANES)

                def step(group, sums):
                    at = emit.times(emit.add(builder.mul(group, depth), level), LANES)
                    for i, start in enumerate(emit.row_starts(group, rows_row)):
                        row = emit.load(rows, emit.add(start, j))
                        sums = [
                            emit.fma(emit.broadcast(panels, emit.shift(at, c * LANES + i)), row, s)
                            for c, s in enumerate(sums)
                        ]
                    return sums

                sums = emit.loop(groups, 1, LANES, step)
                for start, total in zip(emit.row_starts(number, n_columns), sums, strict=True):
                    here = emit.add(start, j)
                    emit.store(builder.fadd(emit.load(out, here), total), out, here)

        _over_columns(context, builder, signature.args[0].dtype, n_columns, column)
        return context.get_dummy_value()

    return numba.types.void(panels, INTP, panels, INTP, INTP, INTP, panels), codegen


@intrinsic
def row_products(typing, a, a_row, b, b_row, n_columns, groups, out):
    """out[i] = <a[i], b[i]>, rows of n_columns numbers that are so far apart."""

    def codegen(context, builder, signature, args):
        a, a_row, b, b_row, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        with emit.repeat(groups) as group:
            a_starts, b_starts = (emit.row_starts(group, row) for row in (a_row, b_row))

            def step(j, sums):
                return [
                    emit.fma(emit.load(a, emit.add(x, j)), emit.load(b, emit.add(y, j)), total)
                    for x, y, total in zip(a_starts, b_starts, sums, strict=True)
                ]

            sums = emit.loop(n_columns, LANES, LANES, step)
            emit.store(emit.sums_of_lanes(sums), out, emit.times(group, LANES))
        return context.get_dummy_value()

    return numba.types.void(a, INTP, a, INTP, INTP, INTP, a), codegen


# -- several outputs -------------------------------------------------------------------------------

# Rows of several outputs are panels, one output after the other: element (j, g, l, i) for output j,
# group g, column l and row i of the group.


@intrinsic
def products_by_output(typing, rows, panels, n_outputs, n_columns, groups, out):
    """out[j, i] = sum_l rows[i, l] panels[j, l, i], for rows of n_columns numbers."""

    def codegen(context, builder, signature, args):
        rows, panels, n_outputs, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        zero = ir.Constant(emit.vector, [0.0] * LANES)
        with emit.repeat(groups) as group:
            starts = emit.row_starts(group, n_columns)
            with emit.repeat(builder.sdiv(n_columns, emit.constant(LANES))) as number:
                first = emit.times(number, LANES)
                columns = emit.transpose_group(
                    [emit.load(rows, emit.add(start, first)) for start in starts]
                )
                is_first = builder.icmp_signed("==", number, emit.constant(0))
                with emit.repeat(n_outputs) as j:
                    at = emit.add(builder.mul(j, groups), group)
                    here = emit.times(emit.add(builder.mul(at, n_columns), first), LANES)
                    there = emit.times(at, LANES)
                    sums = [builder.select(is_first, zero, emit.load(out, there)), zero]
                    for c, column in enumerate(columns):
                        panel = emit.load(panels, emit.shift(here, c * LANES))
                        sums[c % 2] = emit.fma(column, panel, sums[c % 2])
                    emit.store(builder.fadd(*sums), out, there)
        return context.get_dummy_value()

    return numba.types.void(rows, rows, INTP, INTP, INTP, rows), codegen


@intrinsic
def sum_over_outputs(typing, panels, w, n_outputs, n_columns, groups, out):
    """out[i, l] = sum_j w[j, i] panels[j, l, i]: the transpose of `products_by_output`."""

    def codegen(context, builder, signature, args):
        panels, w, n_outputs, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        with emit.repeat(groups) as group:
            starts = emit.row_starts(group, n_columns)
            with emit.repeat(builder.sdiv(n_columns, emit.constant(LANES))) as number:
                first = emit.times(number, LANES)

                def step(j, sums):
                    at = emit.add(builder.mul(j, groups), group)
                    here = emit.times(emit.add(builder.mul(at, n_columns), first), LANES)
                    weight = emit.load(w, emit.times(at, LANES))
                    return [
                        emit.fma(weight, emit.load(panels, emit.shift(here, c * LANES)), total)
                        for c, total in enumerate(sums)
                    ]

                sums = emit.loop(n_outputs, 1, LANES, step)
                for start, row in zip(starts, emit.transpose_group(sums), strict=True):
                    emit.store(row, out, emit.add(start, first))
        return context.get_dummy_value()

    return numba.types.void(panels, panels, INTP, INTP, INTP, panels), codegen


# -- weights ---------------------------------------------------------------------------------------


@intrinsic
def weigh_rows(typing, rows, rows_row, w, n_columns, groups, out):
    """out[i] = w[i] rows[i]: rows of n_columns numbers, rows_row apart."""

    def codegen(context, builder, signature, args):
        rows, rows_row, w, n_columns, groups, out = args

        def column(emit, j):
            with emit.repeat(groups) as group:
                starts = emit.row_starts(group, rows_row)
                there = emit.row_starts(group, n_columns)
                for i, (start, end) in enumerate(zip(starts, there, strict=True)):
                    weight = emit.broadcast(w, emit.shift(emit.times(group, LANES), i))
                    row = emit.load(rows, emit.add(start, j))
                    emit.store(builder.fmul(weight, row), out, emit.add(end, j))

        _over_columns(context, builder, signature.args[0].dtype, n_columns, column)
        return context.get_dummy_value()

    return numba.types.void(rows, INTP, rows, INTP, INTP, rows), codegen


@intrinsic
def weigh_panels(typing, panels, depth, w, n_columns, groups, out):
    """out[l, i] = w[i] panels[l, i] for l < n_columns; both are parts of panels of that depth."""

    def codegen(context, builder, signature, args):
        panels, depth, w, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        with emit.repeat(groups) as group:
            first = emit.times(builder.mul(group, depth), LANES)
            weights = emit.load(w, emit.times(group, LANES))
            with emit.repeat(builder.sdiv(n_columns, emit.constant(LANES))) as number:
                start = emit.add(first, emit.times(number, LANES * LANES))
                for column in range(LANES):
                    at = emit.shift(start, column * LANES)
                    emit.store(builder.fmul(weights, emit.load(panels, at)), out, at)
        return context.get_dummy_value()

    return numba.types.void(panels, INTP, panels, INTP, INTP, panels), codegen


@intrinsic
def panel_squares(typing, panels, depth, n_columns, groups, out):
    """out[i] = sum_l panels[l, i]^2 for l < n_columns, a part of panels of that depth."""

    def codegen(context, builder, signature, args):
        panels, depth, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        with emit.repeat(groups) as group:
            first = emit.times(builder.mul(group, depth), LANES)

            def step(level, sums):
                start = emit.add(first, emit.times(level, LANES))
                columns = [emit.load(panels, emit.shift(start, c * LANES)) for c in range(LANES)]
                return [emit.fma(x, x, total) for x, total in zip(columns, sums, strict=True)]

            sums = emit.loop(n_columns, LANES, LANES, step)
            while len(sums) > 1:
                sums = [builder.fadd(x, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
            emit.store(sums[0], out, emit.times(group, LANES))
        return context.get_dummy_value()

    return numba.types.void(panels, INTP, INTP, INTP, panels), codegen


# -- rows of samples -------------------------------------------------------------------------------


@intrinsic
def gather_rows(typing, rows, rows_row, samples, n_columns, groups, out):
    """out[i] = rows[samples[i]]: rows of n_columns numbers, rows_row apart."""

    def codegen(context, builder, signature, args):
        rows, rows_row, samples, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        with emit.repeat(groups) as group:
            starts = emit.row_starts(group, rows_row, samples)
            there = emit.row_starts(group, n_columns)
            with emit.repeat(builder.sdiv(n_columns, emit.constant(LANES))) as number:
                j = emit.times(number, LANES)
                for start, end in zip(starts, there, strict=True):
                    emit.store(emit.load(rows, emit.add(start, j)), out, emit.add(end, j))
        return context.get_dummy_value()

    return numba.types.void(rows, INTP, samples, INTP, INTP, rows), codegen


@intrinsic
def scatter_rows(typing, block, samples, n_columns, groups, rows, rows_row):
    """rows[samples[i]] = block[i]: rows of n_columns numbers, rows_row apart."""

    def codegen(context, builder, signature, args):
        block, samples, n_columns, groups, rows, rows_row = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        with emit.repeat(groups) as group:
            starts = emit.row_starts(group, n_columns)
            there = emit.row_starts(group, rows_row, samples)
            with emit.repeat(builder.sdiv(n_columns, emit.constant(LANES))) as number:
                j = emit.times(number, LANES)
                for start, end in zip(starts, there, strict=True):
                    emit.store(emit.load(block, emit.add(start, j)), rows, emit.add(end, j))
        return context.get_dummy_value()

    return numba.types.void(block, samples, INTP, INTP, block, INTP), codegen


@intrinsic
def gather_panels(typing, rows, rows_row, samples, n_columns, groups, out, depth):
    """out[l, i] = rows[samples[i], l] for l < n_columns, a part of panels of that depth."""

    def codegen(context, builder, signature, args):
        rows, rows_row, samples, n_columns, groups, out, depth = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        _transpose_rows(emit, rows, rows_row, samples, n_columns, groups, out, depth)
        return context.get_dummy_value()

    return numba.types.void(rows, INTP, samples, INTP, INTP, rows, INTP), codegen


@intrinsic
def make_panels(typing, rows, rows_row, n_columns, groups, out):
    """out[l, i] = rows[i, l]: panels of all rows, of the depth n_columns."""

    def codegen(context, builder, signature, args):
        rows, rows_row, n_columns, groups, out = args
        emit = _Rows(context, builder, signature.args[0].dtype, LANES)
        _transpose_rows(emit, rows, rows_row, None, n_columns, groups, out, n_columns)
        return context.get_dummy_value()

    return numba.types.void(rows, INTP, INTP, INTP, rows), codegen


def _transpose_rows(emit, rows, rows_row, samples, n_columns, groups, out, depth):
    with emit.repeat(groups) as group:
        starts = emit.row_starts(group, rows_row, samples)
        first = emit.times(emit.builder.mul(group, depth), LANES)
        with emit.repeat(emit.builder.sdiv(n_columns, emit.constant(LANES))) as number:
            j = emit.times(number, LANES)
            loaded = [emit.load(rows, emit.add(start, j)) for start in starts]
            at = emit.add(first, emit.times(j, LANES))
            for c, column in enumerate(emit.transpose_group(loaded)):
                emit.store(column, out, emit.shift(at, c * LANES))
