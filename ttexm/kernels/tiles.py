"""Register tiles: the innermost loops, written as vector instructions on pointers.

LLVM does not keep the accumulators of a plain loop nest in registers; these intrinsics emit the
vector code directly, with 12 (of 16) registers as accumulators. They take pointers, not arrays: an
array that is passed on or sliced costs atomic reference counts, more than a tile's work at small
ranks. A pointer does not keep its array alive: only kernels make them, of their arguments.

    absorb   out[j, s] = base[j, s] + w[s] sum_l v[l, s] g[l, j]        lanes run over samples
    outer    D[a, b]  += sum_s p[a, s] q[b, s]                          lanes run over samples
    lookup   out[b, s] += w_s sum_a v[a, s] g_s[a, b]                   lanes run over b
    scatter  D_s[a, b] += p[a, s] q[b, s]                               lanes run over b
"""

import contextlib

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from .compilation import VECTOR_BYTES

INTP = numba.types.intp
VECTORS = 3  # vectors of samples in an absorb tile
TILE_BYTES = VECTORS * VECTOR_BYTES  # an absorb tile spans TILE_BYTES // itemsize samples
GROUP = 4  # columns of an outer tile; samples and columns of a lookup or scatter tile


@intrinsic
def pointer(typing, array):
    """Address of an array's first element; p[i] reads and writes, unchecked."""

    def codegen(context, builder, signature, args):
        return make_array(signature.args[0])(context, builder, args[0]).data

    return numba.types.CPointer(array.dtype)(array), codegen


@intrinsic
def shift(typing, p, k):
    """The pointer to p[k]."""

    def codegen(context, builder, signature, args):
        element = context.get_data_type(signature.args[0].dtype)
        return builder.gep(args[0], [args[1]], source_etype=element)

    return p(p, INTP), codegen


@intrinsic
def element(typing, p, x):
    """The number x in the precision that p points to."""

    def codegen(context, builder, signature, args):
        return context.cast(builder, args[1], signature.args[1], signature.return_type)

    return p.dtype(p, x), codegen


@intrinsic
def itemsize(typing, p):
    """Bytes of what p points to."""

    def codegen(context, builder, signature, args):
        return context.get_constant(INTP, signature.args[0].dtype.bitwidth // 8)

    return INTP(p), codegen


@intrinsic
def epsilon(typing, p):
    """Rounding unit of what p points to."""

    def codegen(context, builder, signature, args):
        bits = signature.args[0].dtype.bitwidth
        return context.get_constant(numba.types.float64, 2.0**-52 if bits == 64 else 2.0**-23)

    return numba.types.float64(p), codegen


class Emitter:
    """Vector instructions on pointers, for vectors of `lanes` elements."""

    def __init__(self, context, builder, dtype, lanes=None):
        self.context, self.builder = context, builder
        self.element = context.get_data_type(dtype)
        self.bytes = dtype.bitwidth // 8
        self.lanes = lanes or VECTOR_BYTES // self.bytes
        self.vector = ir.VectorType(self.element, self.lanes)
        # Tiles are long: inlined at every call of the function around them they take LLVM minutes.
        builder.function.attributes.add("noinline")

    def row(self, start, stride, k):
        """start + k * stride, for a Python integer k."""
        return self.builder.add(start, self.builder.mul(stride, ir.Constant(start.type, k)))

    def shift(self, index, k):
        return self.builder.add(index, ir.Constant(index.type, k))

    def pointer(self, base, index):
        return self.builder.gep(base, [index], source_etype=self.element)

    def load(self, base, index):
        pointer = self.builder.bitcast(self.pointer(base, index), self.vector.as_pointer())
        return self.builder.load(pointer, align=self.bytes, typ=self.vector)

    def store(self, value, base, index):
        pointer = self.builder.bitcast(self.pointer(base, index), self.vector.as_pointer())
        self.builder.store(value, pointer, align=self.bytes)

    def load_scalar(self, base, index):
        return self.builder.load(self.pointer(base, index), typ=self.element)

    def gather(self, scalars):
        """The vector of the given scalars."""
        vector = ir.Constant(self.vector, ir.Undefined)
        for lane, scalar in enumerate(scalars):
            vector = self.builder.insert_element(vector, scalar, ir.IntType(32)(lane))
        return vector

    def splat(self, scalar):
        vector = ir.Constant(self.vector, ir.Undefined)
        vector = self.builder.insert_element(vector, scalar, ir.IntType(32)(0))
        return self.shuffle(vector, vector, [0] * self.lanes)

    def shuffle(self, x, y, lanes):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(x, y, mask)

    def fma(self, x, y, z):
        suffix = {8: "f64", 4: "f32"}[self.bytes]
        kind = ir.FunctionType(z.type, [z.type] * 3)
        name = f"llvm.fmuladd.v{z.type.count}{suffix}"
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, name), [x, y, z]
        )

    def transpose(self, rows):
        """GROUP vectors of GROUP lanes, transposed."""
        low = [self.shuffle(rows[k], rows[k + 1], [0, 4, 2, 6]) for k in (0, 2)]
        high = [self.shuffle(rows[k], rows[k + 1], [1, 5, 3, 7]) for k in (0, 2)]
        return [
            self.shuffle(*low, [0, 1, 4, 5]),
            self.shuffle(*high, [0, 1, 4, 5]),
            self.shuffle(*low, [2, 3, 6, 7]),
            self.shuffle(*high, [2, 3, 6, 7]),
        ]

    def halves_added(self, x):
        """Vector of half the lanes: the lower half plus the upper."""
        half = x.type.count // 2
        lower = self.shuffle(x, x, list(range(half)))
        upper = self.shuffle(x, x, list(range(half, 2 * half)))
        return self.builder.fadd(lower, upper)

    def lane_sums(self, vectors):
        """Sums over the lanes of GROUP vectors, as one vector of GROUP lanes."""
        while vectors[0].type.count > GROUP:
            vectors = [self.halves_added(x) for x in vectors]
        first, second, third, fourth = self.transpose(vectors)
        return self.builder.fadd(self.builder.fadd(first, second), self.builder.fadd(third, fourth))

    def lane_sum(self, x):
        while x.type.count > 1:
            x = self.halves_added(x)
        return self.builder.extract_element(x, ir.IntType(32)(0))

    @contextlib.contextmanager
    def repeat(self, count):
        """The index 0, 1, .. < count of a loop, whose body is emitted within the context."""
        with cgutils.for_range(self.builder, count) as loop:
            yield loop.index

    def loop(self, count, step, n_accumulators, body):
        """Accumulators (from zero) after `body(index, accumulators)` for 0, step, .. < count.

        `count` must be at least 1: the test is at the end.
        """
        builder = self.builder
        entry = builder.block
        block, done = builder.append_basic_block("tile"), builder.append_basic_block("tile.end")
        builder.branch(block)
        builder.position_at_end(block)
        index = builder.phi(count.type)
        index.add_incoming(ir.Constant(count.type, 0), entry)
        phis = [builder.phi(self.vector) for _ in range(n_accumulators)]
        results = body(index, phis)
        following = self.shift(index, step)
        builder.cbranch(builder.icmp_signed("<", following, count), block, done)
        index.add_incoming(following, builder.block)
        for phi, result in zip(phis, results, strict=True):
            phi.add_incoming(ir.Constant(self.vector, [0.0] * self.lanes), entry)
            phi.add_incoming(result, block)
        builder.position_at_end(done)
        return results


def absorb_tiles(
    columns, vectors=VECTORS, lanes=None, slots=1, weighted=True, based=True, halved=False
):
    """Tiles of `columns` outputs by `vectors` vectors of samples: `groups` of them by all samples.

    One slot: out = base + w acc_0; unweighted: w = 1; not based: base = 0. Two slots:
    out = acc_0 + w acc_1. Row j of `out` and `base` starts at j * row, row l of `v` at l * v_row; g
    is read at l * depth_stride + j * column_stride, for the second slot `slot_stride` further.
    Takes samples as long as a whole tile of them fits into `width`. Vectors have the given number
    of lanes, or the machine's own width; halved: half of that.
    """

    @intrinsic
    def tiles(
        typing, out, base, row, v, v_row, depth, g, depth_stride, column_stride, slot_stride, w,
        groups, width,
    ):  # fmt: skip
        p = out
        signature = numba.types.void(p, p, INTP, p, INTP, INTP, p, INTP, INTP, INTP, p, INTP, INTP)

        def codegen(context, builder, signature, args):
            out, base, row, v, v_row, depth, g, depth_stride, column_stride, slot_stride, w = args[
                :11
            ]
            groups, width = args[11:]
            dtype = signature.args[0].dtype
            n_lanes = VECTOR_BYTES * 4 // dtype.bitwidth if halved else lanes
            emit = Emitter(context, builder, dtype, n_lanes)
            places = [(i, j) for i in range(slots) for j in range(columns)]

            def tile(out, base, v, g, w):
                def step(level, accumulators):
                    v_here = builder.mul(level, v_row)
                    g_here = builder.mul(level, depth_stride)
                    samples = [
                        emit.load(v, emit.shift(v_here, s * emit.lanes)) for s in range(vectors)
                    ]
                    results = []
                    for i, j in places:
                        at = emit.row(emit.row(g_here, slot_stride, i), column_stride, j)
                        weight = emit.splat(emit.load_scalar(g, at))
                        results += [
                            emit.fma(samples[s], weight, accumulators[len(results) + s])
                            for s in range(vectors)
                        ]
                    return results

                sums = emit.loop(depth, 1, len(places) * vectors, step)
                sums = {(*ij, s): sums.pop(0) for ij in places for s in range(vectors)}
                zero = ir.Constant(row.type, 0)
                for s in range(vectors):
                    if weighted:
                        weight = emit.load(w, emit.shift(zero, s * emit.lanes))
                    for j in range(columns):
                        here = emit.shift(emit.row(zero, row, j), s * emit.lanes)
                        result = sums[0, j, s]
                        if slots == 2:
                            result = emit.fma(weight, sums[1, j, s], result)
                        elif weighted:
                            result = emit.fma(weight, result, emit.load(base, here))
                        elif based:
                            result = builder.fadd(emit.load(base, here), result)
                        emit.store(result, out, here)

            span = vectors * emit.lanes
            with emit.repeat(builder.sdiv(width, ir.Constant(width.type, span))) as number:
                s = builder.mul(number, ir.Constant(width.type, span))
                with emit.repeat(groups) as group:
                    j = builder.mul(group, ir.Constant(width.type, columns))
                    at = builder.add(s, builder.mul(j, row))
                    tile(
                        emit.pointer(out, at), emit.pointer(base, at), emit.pointer(v, s),
                        emit.pointer(g, builder.mul(j, column_stride)), emit.pointer(w, s),
                    )  # fmt: skip
            return context.get_dummy_value()

        return signature, codegen

    return tiles


def outer_tile(rows, columns):
    """Tile of `rows` rows of p by GROUP rows of q (stored as one vector), or by one row of q."""

    @intrinsic
    def tile(typing, D, D_row, p, q, row, length):
        signature = numba.types.void(D, INTP, D, D, INTP, INTP)

        def codegen(context, builder, signature, args):
            D, D_row, p, q, row, length = args
            dtype = signature.args[0].dtype
            emit, narrow = (
                Emitter(context, builder, dtype),
                Emitter(context, builder, dtype, columns),
            )

            def step(s, accumulators):
                left = [emit.load(p, emit.row(s, row, a)) for a in range(rows)]
                results = []
                for b in range(columns):
                    right = emit.load(q, emit.row(s, row, b))
                    results += [
                        emit.fma(left[a], right, accumulators[b * rows + a]) for a in range(rows)
                    ]
                return results

            sums = emit.loop(length, emit.lanes, rows * columns, step)
            for a in range(rows):
                if columns == GROUP:
                    total = emit.lane_sums([sums[b * rows + a] for b in range(columns)])
                else:
                    total = narrow.gather([emit.lane_sum(sums[a])])
                here = emit.row(ir.Constant(row.type, 0), D_row, a)
                narrow.store(builder.fadd(narrow.load(D, here), total), D, here)
            return context.get_dummy_value()

        return signature, codegen

    return tile


def _matrices(emit, codes, matrix, slot):
    """Pointers to the matrices of GROUP codes, and which codes are not zero."""
    builder = emit.builder
    vector = ir.VectorType(ir.IntType(32), GROUP)
    code = builder.load(builder.bitcast(codes, vector.as_pointer()), align=4, typ=vector)
    pointers = []
    for s in range(GROUP):
        one = builder.sext(builder.extract_element(code, ir.IntType(32)(s)), slot.type)
        pointers.append(builder.gep(matrix, [builder.mul(one, slot)], source_etype=emit.element))
    return pointers, builder.icmp_signed("!=", code, ir.Constant(vector, [0] * GROUP))


def lookup_tile(groups):
    """Tile of GROUP samples, each with the matrix of its code, by `groups` * GROUP columns.

    The matrix of code c starts at g + c * slot; the weight is at_zero for code 0, else `elsewhere`.
    """

    @intrinsic
    def tile(typing, out, v, row, depth, g, g_row, slot, codes, at_zero, elsewhere):
        p, weight = out, out.dtype
        signature = numba.types.void(p, p, INTP, INTP, p, INTP, INTP, codes, weight, weight)

        def codegen(context, builder, signature, args):
            out, v, row, depth, g, g_row, slot, codes, at_zero, elsewhere = args
            emit = Emitter(context, builder, signature.args[0].dtype, lanes=GROUP)
            matrices, nonzero = _matrices(emit, codes, g, slot)
            weight = builder.select(nonzero, emit.splat(elsewhere), emit.splat(at_zero))

            def step(a, accumulators):
                here, down = builder.mul(a, row), builder.mul(a, g_row)
                results = []
                for s, matrix in enumerate(matrices):
                    factor = emit.splat(emit.load_scalar(v, emit.shift(here, s)))
                    for c in range(groups):
                        entries = emit.load(matrix, emit.shift(down, c * GROUP))
                        results.append(emit.fma(factor, entries, accumulators[len(results)]))
                return results

            sums = emit.loop(depth, 1, GROUP * groups, step)
            for c in range(groups):
                for b, result in enumerate(emit.transpose(sums[c::groups])):
                    here = emit.row(ir.Constant(row.type, 0), row, c * GROUP + b)
                    emit.store(emit.fma(weight, result, emit.load(out, here)), out, here)
            return context.get_dummy_value()

        return signature, codegen

    return tile


@intrinsic
def scatter_tile(typing, D, D_row, slot, codes, p, q, row, depth):
    """GROUP samples, each into the matrix D + c * slot of its code, GROUP columns; in order."""
    signature = numba.types.void(D, INTP, INTP, codes, D, D, INTP, INTP)

    def codegen(context, builder, signature, args):
        D, D_row, slot, codes, p, q, row, depth = args
        emit = Emitter(context, builder, signature.args[0].dtype, lanes=GROUP)
        matrices, _ = _matrices(emit, codes, D, slot)
        zero = ir.Constant(row.type, 0)
        samples = emit.transpose([emit.load(q, emit.row(zero, row, b)) for b in range(GROUP)])

        def step(a, _):
            here, down = builder.mul(a, row), builder.mul(a, D_row)
            for s, matrix in enumerate(matrices):
                factor = emit.splat(emit.load_scalar(p, emit.shift(here, s)))
                emit.store(emit.fma(factor, samples[s], emit.load(matrix, down)), matrix, down)
            return []

        emit.loop(depth, 1, 0, step)
        return context.get_dummy_value()

    return signature, codegen
