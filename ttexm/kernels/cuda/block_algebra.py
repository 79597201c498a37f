"""The functions of `dense`, executed by all threads of a block together.

Each function ends with a barrier. Between two barriers no element is written by one thread and used
by another. All threads take the same branches, as conditions depend on numbers that were read after
a barrier. Matrices are float64, also for float32 models: there is little arithmetic, and one block
spends most of its time waiting.
"""

import math

from numba import cuda, float64

from .. import formulas
from .runtime import THREADS

# Shared memory is dynamic: numba cannot link the static array of a function with two callers.
SHARED_BYTES = 2 * 8 * THREADS  # two numbers per thread
MOST_ROTATIONS = 30  # sweeps of Jacobi's method; it converges within ten
EPSILON = 2.0**-52

_device = cuda.jit(device=True)
_inlined = cuda.jit(device=True, inline="always")  # a device function cannot return a slice
_reflection, binary_exponent = _device(formulas.reflection), _inlined(formulas.binary_exponent)


# -- memory: arrays in the place of pointers -----------------------------------------------------


@_inlined
def pointer(a):
    return a


@_inlined
def shift(a, k):
    return a[k:]


@_inlined
def element(a, x):
    return float64(x)


@_inlined
def itemsize(a):
    return 8


@_inlined
def epsilon(a):
    return EPSILON


# -- element by element --------------------------------------------------------------------------


@_device
def fill(a, n, value):
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        a[i] = value
    cuda.syncthreads()


@_device
def put(a, i, value):
    if cuda.threadIdx.x == 0:
        a[i] = value
    cuda.syncthreads()


@_device
def copy(a, n, out):
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        out[i] = a[i]
    cuda.syncthreads()


@_device
def scale(a, n, factor):
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        a[i] *= factor
    cuda.syncthreads()


@_device
def set_identity(a, n):
    for e in range(cuda.threadIdx.x, n * n, cuda.blockDim.x):
        a[e] = 1.0 if e % (n + 1) == 0 else 0.0
    cuda.syncthreads()


@_device
def copy_columns(a, lda, p, q, out, ldo):
    for e in range(cuda.threadIdx.x, p * q, cuda.blockDim.x):
        out[e // q * ldo + e % q] = a[e // q * lda + e % q]
    cuda.syncthreads()


@_device
def add_scaled(a, lda, p, q, factor, out, ldo):
    for e in range(cuda.threadIdx.x, p * q, cuda.blockDim.x):
        out[e // q * ldo + e % q] += factor * a[e // q * lda + e % q]
    cuda.syncthreads()


@_device
def transpose_to(a, p, q, out, ldo):
    for e in range(cuda.threadIdx.x, p * q, cuda.blockDim.x):
        out[e % q * ldo + e // q] = a[e]
    cuda.syncthreads()


@_device
def add_strided_product(out, ldo, a, row, step, b, ldb, p, depth, q):
    for e in range(cuda.threadIdx.x, p * q, cuda.blockDim.x):
        i, j = e // q, e % q
        total = out[i * ldo + j]
        for k in range(depth):
            total += a[i * row + k * step] * b[k * ldb + j]
        out[i * ldo + j] = total
    cuda.syncthreads()


# -- reductions: every thread gets the result -----------------------------------------------------


@_device
def peak(a, n):
    parts = cuda.shared.array(0, float64)
    largest = 0.0
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        largest = max(largest, abs(a[i]))
    parts[cuda.threadIdx.x] = largest
    cuda.syncthreads()
    for t in range(cuda.blockDim.x):
        largest = max(largest, parts[t])
    cuda.syncthreads()
    return largest


@_device
def energy(a, n):
    parts = cuda.shared.array(0, float64)
    own = 0.0
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        own += a[i] * a[i]
    parts[cuda.threadIdx.x] = own
    cuda.syncthreads()
    total = 0.0
    for t in range(cuda.blockDim.x):
        total += parts[t]
    cuda.syncthreads()
    return total


# -- decompositions ------------------------------------------------------------------------------


@_device
def _reflect(v, p, columns, ld, count):
    """u <- u - v v^T u for `count` columns u of p elements, ld elements apart."""
    parts = cuda.shared.array(0, float64)
    t, n_threads = cuda.threadIdx.x, cuda.blockDim.x
    for first in range(0, count, n_threads):
        some = min(n_threads, count - first)
        lanes = n_threads // some
        own, lane, total = t // lanes, t % lanes, 0.0
        if own < some:
            for i in range(lane, p, lanes):
                total += v[i] * columns[(first + own) * ld + i]
        parts[t] = total
        cuda.syncthreads()
        if t < some:
            total = 0.0
            for i in range(lanes):
                total += parts[t * lanes + i]
            parts[n_threads + t] = total
        cuda.syncthreads()
        for e in range(t, some * p, n_threads):
            columns[(first + e // p) * ld + e % p] -= parts[n_threads + e // p] * v[e % p]
        cuda.syncthreads()


@_device
def householder(a, p, q, r, work):
    """QR of a (p, q) as by `dense.householder`, with the same sizes, signs and scratch."""
    k, t, n_threads = min(p, q), cuda.threadIdx.x, cuda.blockDim.x
    columns, Q = work, work[p * q :]
    transpose_to(a, p, q, columns, p)
    for j in range(k):
        v, rows = columns[j * (p + 1) :], p - j
        head, square = v[0], energy(v[1:], rows - 1)
        beta, first, factor = head, 0.0, 0.0
        if square > 0:
            beta, first, factor = _reflection(head, square)
        for i in range(t, rows, n_threads):
            v[i] = factor * v[i] if i > 0 else first
        put(r, j * (q + 1), beta)
        if j + 1 < q:
            _reflect(v, rows, columns[(j + 1) * p + j :], p, q - j - 1)
    for e in range(t, k * p, n_threads):
        Q[e] = 1.0 if e % (p + 1) == 0 else 0.0
    cuda.syncthreads()
    for j in range(k - 1, -1, -1):
        _reflect(columns[j * (p + 1) :], p - j, Q[j * (p + 1) :], p, k - j)
    # Make the diagonal of R non-negative; its signs are still needed until the last loop.
    for e in range(t, p * k, n_threads):
        j = e % k
        a[e] = math.copysign(1.0, r[j * (q + 1)]) * Q[j * p + e // k]
    for e in range(t, k * q, n_threads):
        j, c = e // q, e % q
        if c < j:
            r[e] = 0.0
        elif c > j:
            r[e] = math.copysign(1.0, r[j * (q + 1)]) * columns[c * p + j]
    cuda.syncthreads()
    for j in range(t, k, n_threads):
        r[j * (q + 1)] = abs(r[j * (q + 1)])
    cuda.syncthreads()


@_device
def inverse(a, n, out, work):
    """out = a^-1 as by `dense.inverse`; False if a pivot is zero."""
    t, n_threads, width = cuda.threadIdx.x, cuda.blockDim.x, 2 * n
    rows, factors = work, work[n * width :]
    set_identity(out, n)
    copy_columns(a, n, n, n, rows, width)
    copy_columns(out, n, n, n, rows[n:], width)
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(rows[i * width + j]) > abs(rows[best * width + j]):
                best = i
        pivot = rows[best * width + j]
        if not abs(pivot) > 0:
            return False
        cuda.syncthreads()
        for c in range(t, width, n_threads):
            x = rows[best * width + c] / pivot
            rows[best * width + c] = rows[j * width + c]
            rows[j * width + c] = x
        cuda.syncthreads()
        for i in range(t, n, n_threads):
            factors[i] = rows[i * width + j]
        cuda.syncthreads()
        for e in range(t, n * width, n_threads):
            i, c = e // width, e % width
            if i != j:
                rows[e] -= factors[i] * rows[j * width + c]
        cuda.syncthreads()
    copy_columns(rows[n:], width, n, n, out, n)
    return True


@_device
def _rotate(x, y, n):
    """Rotate two columns so that they become orthogonal; returns 1 if they were not, else 0."""
    xx, yy, xy = 0.0, 0.0, 0.0
    for i in range(n):
        xx += x[i] * x[i]
        yy += y[i] * y[i]
        xy += x[i] * y[i]
    if not abs(xy) > 4 * EPSILON * math.sqrt(xx) * math.sqrt(yy):
        return 0.0
    zeta = (yy - xx) / (2 * xy)
    tangent = math.copysign(1.0, zeta) / (abs(zeta) + math.hypot(1.0, zeta))
    cosine = 1 / math.sqrt(1 + tangent * tangent)
    sine = cosine * tangent
    for i in range(n):
        a, b = x[i], y[i]
        x[i] = cosine * a - sine * b
        y[i] = sine * a + cosine * b
    return 1.0


@_device
def singular_vectors(M, p, w, r, share, U, like, small, work):
    """The leading r left singular vectors of M (p, w): QR, then one-sided Jacobi on R.

    Each round pairs every column with another, as in a round-robin tournament, one thread per pair.
    Scratch: work, of `svd_scratch(p, w)` elements.
    """
    t, n_threads, k = cuda.threadIdx.x, cuda.blockDim.x, min(p, w)
    R, columns, turned = work, work[k * w :], work[2 * k * w :]
    Q, free = work[(2 * k + 1) * w :], work[(2 * k + 1 + p) * w :]
    copy(M, p * w, Q)
    householder(Q, p, w, R, free)
    transpose_to(R, k, w, columns, k)
    players = w + w % 2
    for _ in range(MOST_ROTATIONS):
        fill(turned, w, 0.0)
        for turn in range(players - 1):
            for pair in range(t, players // 2, n_threads):
                one = (turn + pair) % (players - 1)
                other = (turn - pair + players - 1) % (players - 1) if pair > 0 else players - 1
                if one < w and other < w:
                    turned[pair] += _rotate(columns[one * k :], columns[other * k :], k)
            cuda.syncthreads()
        if peak(turned, w) == 0:
            break
    # From here on `turned` holds the squared lengths of the columns. The r longest ones are
    # normalised and copied to R (k, r), the longest first.
    for c in range(t, w, n_threads):
        square = 0.0
        for i in range(k):
            square += columns[c * k + i] ** 2
        turned[c] = square
    fill(R, k * r, 0.0)
    longest = peak(turned, w)
    for c in range(t, w, n_threads):
        rank = 0
        for i in range(w):
            rank += turned[i] > turned[c] or (turned[i] == turned[c] and i < c)
        if rank < r and turned[c] > (EPSILON * EPSILON) * longest:
            for i in range(k):
                R[i * r + rank] = columns[c * k + i] / math.sqrt(turned[c])
    fill(U, p * r, 0.0)
    add_strided_product(U, r, Q, k, 1, R, r, p, k, r)
    # If M has a lower rank than r, this completes U to r orthonormal columns.
    householder(U, p, r, small, free)


def svd_scratch(p, w):
    """Elements of scratch that `singular_vectors` needs."""
    return (2 * min(p, w) + 1 + p) * w + 2 * p * w
