"""The identity gauge: interior cores with G_k[0] = 1, so that slot 0 costs no work.

With T_{k+1} = T_k G_k[0], the cores H_k[i] = T_k G_k[i] T_{k+1}^-1 are the same tensor, H_k[0] = 1,
and the partial products in H are those in G times T^-1. A core stays dense where T would become
ill-conditioned, and T = 1 after it. The matrices T_k (r_k, r_k) are stored one after the other, by
bond.
"""

from .compilation import inner, kernel
from .dense import add_product, add_transposed_product, copy, fill, inverse, product, set_identity
from .layout import Train
from .projection import add_parts, fix_gauge
from .tiles import element, pointer, shift


@kernel
def impose_identity(train, worst_condition, data, T, identity, work):
    """Write the train in the identity gauge to `data`, with T, and flag the cores with H[0] = 1.

    The first and last cores, and those that change the rank, stay dense. The last core may be the
    matrix of an open train. O(d n r^3). Scratch: work, of max(r) (3 max(r) + 3) elements.
    """
    train = Train(*train)
    d = len(train.sizes)
    widest = train.rank
    T_inverse, scratch = pointer(work), shift(pointer(work), widest * widest)
    t = pointer(T)
    t[0] = element(t, 1)
    for k in range(d):
        n, r0, r1 = train.sizes[k], train.ranks[k], train.ranks[k + 1]
        slot = r0 * r1
        G, H = shift(pointer(train.data), train.offsets[k]), shift(pointer(data), train.offsets[k])
        if k > 0 and identity[k - 1]:
            for i in range(n):
                product(t, shift(G, i * slot), r0, r0, r1, shift(H, i * slot))
        else:
            copy(G, n * slot, H)
        t = shift(t, r0 * r0)
        identity[k] = (
            0 < k < d - 1
            and r0 == r1
            and inverse(H, r0, T_inverse, scratch)
            and _is_well_conditioned(H, T_inverse, r0, worst_condition)
        )
        if identity[k]:
            copy(H, slot, t)
            for i in range(1, n):
                copy(shift(H, i * slot), slot, scratch)
                product(scratch, T_inverse, r0, r0, r0, shift(H, i * slot))
            set_identity(H, r0)
        else:
            set_identity(t, r1)


@inner
def _is_well_conditioned(T, T_inverse, n, worst_condition):
    """Whether T is well conditioned, in the maximum norm, and neither huge nor tiny."""
    norm = inverse_norm = 0.0
    for i in range(n):
        row = inverse_row = 0.0
        for j in range(n):
            row += abs(T[i * n + j])
            inverse_row += abs(T_inverse[i * n + j])
        norm, inverse_norm = max(norm, row), max(inverse_norm, inverse_row)
    return norm * inverse_norm < worst_condition and worst_condition**-2 < norm < worst_condition**2


@kernel
def finish_deltas_in_gauge(parts, kinds, scales, left, left_gauge, right_gauge, skip, out, work):
    """`projection.finish_deltas` for parts computed in the identity gauges H and H' of both trains.

    A gauge is (train, identity, T). The slots D_k[0] that `accumulate_deltas` skipped follow from
    E_k = sum_s g_s P_{s,k}^T Q_{s,k}: E_k = sum_i D_k[i] H'_k[i] with H'_k[0] = 1 gives D_k[0], and
    E_{k+1} = sum_i H_k[i]^T D_k[i]. O(d n r^3).
    Scratch: work, of max(r)^2 (max(n) + 1) elements.
    """
    left = Train(*left)
    left_H, left_identity, T = Train(*left_gauge[0]), left_gauge[1], left_gauge[2]
    right_H, right_identity, T_right = Train(*right_gauge[0]), right_gauge[1], right_gauge[2]
    add_parts(parts, kinds, scales, left, out)
    d = len(left.sizes)
    E, half = pointer(work), shift(pointer(work), left.rank**2)
    for k in range(d):
        n, r0, r1 = left.sizes[k], left.ranks[k], left.ranks[k + 1]
        slot = r0 * r1
        D = shift(pointer(out), left.offsets[k])
        if skip[k]:
            H = shift(pointer(right_H.data), right_H.offsets[d - 1 - k])
            fill(half, slot, 0)
            for i in range(1, n):
                add_product(shift(D, i * slot), shift(H, i * slot), r0, r1, r0, half)
            for i in range(slot):
                D[i] = E[i] - half[i]
        if k + 1 < d and skip[k + 1]:
            H = shift(pointer(left_H.data), left.offsets[k])
            fill(E, r1 * r1, 0)
            add_transposed_product(H, D, r1, n * r0, r1, E)
    # Back to the orthogonal gauge, in which partial products are those in H times T; after a dense
    # core T = 1.
    t, t_right = pointer(T), shift(pointer(T_right), len(T_right))
    for k in range(d):
        n, r0, r1 = left.sizes[k], left.ranks[k], left.ranks[k + 1]
        t_right = shift(t_right, -r0 * r0)
        D = shift(pointer(out), left.offsets[k])
        if k + 1 < d and right_identity[d - 2 - k]:
            copy(D, n * r0 * r1, half)
            product(half, shift(t_right, -r1 * r1), n * r0, r1, r1, D)
        if k > 0 and left_identity[k - 1]:
            for i in range(n):
                slot = shift(D, i * r0 * r1)
                copy(slot, r0 * r1, half)
                fill(slot, r0 * r1, 0)
                add_transposed_product(t, half, r0, r0, r1, slot)
        t = shift(t, r0 * r0)
    fix_gauge(left, pointer(out), pointer(work))
